package identity

import (
	"context"
	"fmt"
)

// UserHasEmail reports whether an e-mail address is that of a user.
func (s *Service) UserHasEmail(ctx context.Context, email string) (found bool, err error) {
	if err := s.DB.QueryRow(unscoped(ctx), userHasEmail, email).Scan(&found); err != nil {
		return false, fmt.Errorf("finding a user by e-mail address: %w", err)
	}
	return found, nil
}
