package matrix_test

import "slices"

// sample returns the cells of two actors for each operation: one that may call it, and another in turn.
// So every operation is called, permitted and denied, and every role meets several operations.
// `make e2e` sends all cells.
func (w *fixture) sample(all []cell) (some []cell) {
	turn, last := 0, ""
	for _, c := range all {
		if c.op.OperationID != last {
			turn, last = turn+1, c.op.OperationID
		}
		if c.actor == w.may(c.op) || c.actor == w.actors[turn%len(w.actors)] {
			some = append(some, c)
		}
	}
	for _, c := range all {
		if !slices.ContainsFunc(some, func(one cell) bool { return one.op.OperationID == c.op.OperationID }) {
			w.Errorf("%s is in no cell of the sample", c.op.OperationID)
		}
	}
	for _, a := range w.actors {
		if !slices.ContainsFunc(some, func(one cell) bool { return one.actor == a }) {
			w.Errorf("%s is in no cell of the sample", a.name)
		}
	}
	return some
}
