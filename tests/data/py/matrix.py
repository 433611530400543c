# SPDX-License-Identifier: MIT
"""Dense matrices in plain Python: products, LU decomposition, determinants, least squares."""

from math import isclose, sqrt


class Matrix:
    __slots__ = ("rows", "n_rows", "n_columns")

    def __init__(self, rows):
        self.rows = [[float(x) for x in row] for row in rows]
        self.n_rows = len(self.rows)
        self.n_columns = len(self.rows[0]) if self.rows else 0
        if any(len(row) != self.n_columns for row in self.rows):
            raise ValueError("rows of different length")

    @classmethod
    def identity(cls, n):
        return cls([[1.0 if i == j else 0.0 for j in range(n)] for i in range(n)])

    @classmethod
    def zeros(cls, n_rows, n_columns):
        return cls([[0.0] * n_columns for _ in range(n_rows)])

    def __getitem__(self, index):
        i, j = index
        return self.rows[i][j]

    def __setitem__(self, index, value):
        i, j = index
        self.rows[i][j] = float(value)

    def __eq__(self, other):
        return isinstance(other, Matrix) and self.rows == other.rows

    def __repr__(self):
        body = "; ".join(" ".join(f"{x:g}" for x in row) for row in self.rows)
        return f"Matrix[{body}]"

    def transpose(self):
        return Matrix([list(column) for column in zip(*self.rows)])

    def __matmul__(self, other):
        if self.n_columns != other.n_rows:
            raise ValueError(f"cannot multiply {self.n_rows}x{self.n_columns} by {other.n_rows}x{other.n_columns}")
        columns = list(zip(*other.rows))
        return Matrix([[sum(a * b for a, b in zip(row, column)) for column in columns] for row in self.rows])

    def scaled(self, factor):
        return Matrix([[factor * x for x in row] for row in self.rows])

    def norm(self):
        return sqrt(sum(x * x for row in self.rows for x in row))


def lu(matrix):
    """PA = LU with partial pivoting; returns (permutation, lower, upper, sign)."""
    n = matrix.n_rows
    if n != matrix.n_columns:
        raise ValueError("LU needs a square matrix")
    upper = Matrix(matrix.rows)
    lower = Matrix.identity(n)
    permutation = list(range(n))
    sign = 1
    for k in range(n):
        pivot = max(range(k, n), key=lambda i: abs(upper[i, k]))
        if isclose(upper[pivot, k], 0.0, abs_tol=1e-12):
            raise ZeroDivisionError("the matrix is singular")
        if pivot != k:
            upper.rows[k], upper.rows[pivot] = upper.rows[pivot], upper.rows[k]
            permutation[k], permutation[pivot] = permutation[pivot], permutation[k]
            for j in range(k):
                lower[k, j], lower[pivot, j] = lower[pivot, j], lower[k, j]
            sign = -sign
        for i in range(k + 1, n):
            factor = upper[i, k] / upper[k, k]
            lower[i, k] = factor
            for j in range(k, n):
                upper[i, j] -= factor * upper[k, j]
    return permutation, lower, upper, sign


def determinant(matrix):
    try:
        _, _, upper, sign = lu(matrix)
    except ZeroDivisionError:
        return 0.0
    result = float(sign)
    for i in range(matrix.n_rows):
        result *= upper[i, i]
    return result


def solve(matrix, right):
    permutation, lower, upper, _ = lu(matrix)
    n = matrix.n_rows
    y = [0.0] * n
    for i in range(n):
        y[i] = right[permutation[i]] - sum(lower[i, j] * y[j] for j in range(i))
    x = [0.0] * n
    for i in reversed(range(n)):
        x[i] = (y[i] - sum(upper[i, j] * x[j] for j in range(i + 1, n))) / upper[i, i]
    return x


def least_squares(design, observed):
    """Solves the normal equations; fine for a handful of well scaled parameters."""
    transposed = design.transpose()
    right = [sum(a * b for a, b in zip(row, observed)) for row in transposed.rows]
    return solve(transposed @ design, right)


def fit_line(points):
    design = Matrix([[1.0, x] for x, _ in points])
    intercept, slope = least_squares(design, [y for _, y in points])
    return slope, intercept
