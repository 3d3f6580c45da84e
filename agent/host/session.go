package host

import (
	"context"
	"errors"
)

// End implements hook.Sessions.
func (h *Host) End(_ context.Context, name string, uid int) error {
	if err := tenant(name, uid); err != nil {
		return err
	}
	return errors.ErrUnsupported
}
