package host

import (
	"context"
	"errors"
)

// Sweep implements hook.Leftovers.
func (h *Host) Sweep(_ context.Context, name string, uid int) error {
	if err := tenant(name, uid); err != nil {
		return err
	}
	return errors.ErrUnsupported
}
