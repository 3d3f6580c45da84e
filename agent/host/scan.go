package host

import (
	"context"
	"errors"
)

// Scan implements hook.Leftovers.
func (h *Host) Scan(_ context.Context, name string, uid int, _ []string) ([]string, error) {
	if err := tenant(name, uid); err != nil {
		return nil, err
	}
	return nil, errors.ErrUnsupported
}
