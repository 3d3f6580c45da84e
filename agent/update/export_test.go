package update

import "context"

// Begin is Become without the wait: done when there is nothing to wait for.
func (u *Updater) Begin(ctx context.Context, o Request) (done bool, err error) {
	wait, err := u.begin(ctx, o)
	return wait == nil, err
}

// Reached has f called at each moment at which a crash matters.
func (u *Updater) Reached(f func(point string)) { u.reached = f }

// Minimum is the lowest version that the node may run.
func (u *Updater) Minimum() string {
	m, err := u.recall()
	if err != nil {
		return err.Error()
	}
	return m.Minimum
}
