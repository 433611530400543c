# SPDX-License-Identifier: MIT
"""Weighted graphs: Dijkstra, A* on a grid, connected components and topological order."""

import heapq
import math
from collections import deque


class Graph:
    def __init__(self, directed=False):
        self.directed = directed
        self._edges = {}

    def add_node(self, node):
        self._edges.setdefault(node, {})

    def add_edge(self, source, target, weight=1.0):
        if weight < 0:
            raise ValueError("negative weights are not supported")
        self.add_node(source)
        self.add_node(target)
        self._edges[source][target] = weight
        if not self.directed:
            self._edges[target][source] = weight

    def neighbours(self, node):
        return self._edges[node].items()

    def nodes(self):
        return list(self._edges)

    def __len__(self):
        return len(self._edges)

    def __contains__(self, node):
        return node in self._edges


def dijkstra(graph, start):
    """Returns distances and predecessors of all nodes that can be reached from start."""
    distance = {start: 0.0}
    previous = {}
    queue = [(0.0, start)]
    done = set()
    while queue:
        cost, node = heapq.heappop(queue)
        if node in done:
            continue
        done.add(node)
        for neighbour, weight in graph.neighbours(node):
            new_cost = cost + weight
            if new_cost < distance.get(neighbour, math.inf):
                distance[neighbour] = new_cost
                previous[neighbour] = node
                heapq.heappush(queue, (new_cost, neighbour))
    return distance, previous


def path_to(previous, start, goal):
    path = [goal]
    while path[-1] != start:
        if path[-1] not in previous:
            return None
        path.append(previous[path[-1]])
    path.reverse()
    return path


def astar(grid, start, goal):
    """Shortest path on a grid of 0 (free) and 1 (wall), moving in four directions."""
    height, width = len(grid), len(grid[0])

    def estimate(cell):
        return abs(cell[0] - goal[0]) + abs(cell[1] - goal[1])

    queue = [(estimate(start), 0, start)]
    best = {start: 0}
    previous = {}
    while queue:
        _, cost, cell = heapq.heappop(queue)
        if cell == goal:
            return path_to(previous, start, goal)
        row, column = cell
        for d_row, d_column in ((0, 1), (1, 0), (0, -1), (-1, 0)):
            r, c = row + d_row, column + d_column
            if not (0 <= r < height and 0 <= c < width) or grid[r][c]:
                continue
            new_cost = cost + 1
            if new_cost < best.get((r, c), math.inf):
                best[(r, c)] = new_cost
                previous[(r, c)] = cell
                heapq.heappush(queue, (new_cost + estimate((r, c)), new_cost, (r, c)))
    return None


def components(graph):
    seen = set()
    result = []
    for node in graph.nodes():
        if node in seen:
            continue
        component = []
        queue = deque([node])
        seen.add(node)
        while queue:
            current = queue.popleft()
            component.append(current)
            for neighbour, _ in graph.neighbours(current):
                if neighbour not in seen:
                    seen.add(neighbour)
                    queue.append(neighbour)
        result.append(component)
    return result


def topological_order(graph):
    if not graph.directed:
        raise ValueError("only directed graphs have a topological order")
    incoming = {node: 0 for node in graph.nodes()}
    for node in graph.nodes():
        for neighbour, _ in graph.neighbours(node):
            incoming[neighbour] += 1
    ready = deque(node for node, count in incoming.items() if count == 0)
    order = []
    while ready:
        node = ready.popleft()
        order.append(node)
        for neighbour, _ in graph.neighbours(node):
            incoming[neighbour] -= 1
            if incoming[neighbour] == 0:
                ready.append(neighbour)
    if len(order) != len(graph):
        raise ValueError("the graph has a cycle")
    return order


if __name__ == "__main__":
    roads = Graph()
    for a, b, km in [("Ulm", "Augsburg", 80), ("Augsburg", "München", 65), ("Ulm", "Kempten", 90)]:
        roads.add_edge(a, b, km)
    distances, came_from = dijkstra(roads, "Kempten")
    print(distances["München"], path_to(came_from, "Kempten", "München"))
