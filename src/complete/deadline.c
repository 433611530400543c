// SPDX-License-Identifier: MIT
// Watchdog: parked on a condition variable until armed; the flag is written under the lock, so disarm is a full stop.
#include "complete/deadline.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/thread.h"

struct deadline {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool stop;
	int64_t when_us;
	_Atomic int *flag; // null while disarmed
	int value;
};

static void wait_until(struct deadline *d) {
	struct timespec t = {.tv_sec = d->when_us / 1000000, .tv_nsec = d->when_us % 1000000 * 1000};
	pthread_cond_timedwait(&d->changed, &d->lock, &t);
}

static void fire(struct deadline *d) {
	int none = 0;
	atomic_compare_exchange_strong(d->flag, &none, d->value);
	d->flag = NULL;
}

static void *watch(void *arg) {
	struct deadline *d = arg;
	pthread_mutex_lock(&d->lock);
	while (!d->stop) {
		if (!d->flag)
			pthread_cond_wait(&d->changed, &d->lock);
		else if (clock_us() >= d->when_us)
			fire(d);
		else
			wait_until(d);
	}
	pthread_mutex_unlock(&d->lock);
	return NULL;
}

enum err deadline_create(struct deadline **out) {
	struct deadline *d = calloc(1, sizeof *d);
	if (!d)
		return ERR_NOMEM;
	pthread_mutex_init(&d->lock, NULL);
	thread_cond_init(&d->changed);
	if (thread_start(&d->thread, watch, d) != ERR_OK) {
		pthread_cond_destroy(&d->changed);
		pthread_mutex_destroy(&d->lock);
		free(d);
		return ERR_NOMEM;
	}
	*out = d;
	return ERR_OK;
}

void deadline_destroy(struct deadline *d) {
	if (!d)
		return;
	pthread_mutex_lock(&d->lock);
	d->stop = true;
	pthread_cond_signal(&d->changed);
	pthread_mutex_unlock(&d->lock);
	pthread_join(d->thread, NULL);
	pthread_cond_destroy(&d->changed);
	pthread_mutex_destroy(&d->lock);
	free(d);
}

void deadline_arm(struct deadline *d, int64_t when_us, _Atomic int *flag, int value) {
	pthread_mutex_lock(&d->lock);
	d->when_us = when_us;
	d->flag = flag;
	d->value = value;
	pthread_cond_signal(&d->changed);
	pthread_mutex_unlock(&d->lock);
}

void deadline_disarm(struct deadline *d) {
	pthread_mutex_lock(&d->lock);
	d->flag = NULL;
	pthread_mutex_unlock(&d->lock);
}
