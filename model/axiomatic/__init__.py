"""The memory model with values: litmus tests, their executions, and the axioms that judge them."""
