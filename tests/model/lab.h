// SPDX-License-Identifier: MIT
// What decoder and session tests share: a model opened with each kernel set, pools of 1 to 3 threads, sessions with their own store.
#ifndef MASKSTORE_TESTS_LAB_H
#define MASKSTORE_TESTS_LAB_H

#include "base/pool.h"
#include "maskstore/maskstore.h"
#include "model/model.h"
#include "model/session.h"
#include "tiny_model.h"

#define LAB_MAX_THREADS 3

// Repetitions are divided by this: 10 under sanitizers and where only the scalar kernels are built, which are as slow; else 1.
int lab_fewer(void);

struct lab {
	struct model *models[2]; // scalar kernels, best kernels of this machine (may be the same set)
	struct pool *pools[LAB_MAX_THREADS + 1]; // by number of threads
};

// One session and the store that only it uses.
struct rig {
	struct maskstore *store;
	struct session *session;
};

struct rig_options {
	bool scalar;
	int n_threads, chunk_tokens, capacity_tokens;
	int n_blocks; // of the store; 0: enough for the capacity
	bool share;   // session_options.share
	enum activation activation;
	enum kv_type kv_type;
};

// The shapes that the tests use; each differs from the others in everything that the decoder branches on.
extern const struct tiny_options LAB_MODELS[];
extern const int LAB_N_MODELS;

// These fail the running test when they cannot do their work.
void lab_open_tiny(struct lab *lab, const struct tiny_options *o);
void lab_open_file(struct lab *lab, const char *path);
void lab_close(struct lab *lab);
void rig_open(struct rig *rig, const struct lab *lab, const struct rig_options *o);
// Also checks that the session gave all blocks back.
void rig_close(struct rig *rig);

// Path of a new temporary file (static buffer); the caller unlinks it.
const char *lab_temp_path(void);

#endif
