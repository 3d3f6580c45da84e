package signin

import (
	"context"
	"fmt"
	"strings"

	"github.com/gpuaas/gpuaas/platform/audit"
)

// UsualAddress reports whether the user with an e-mail address has started a session from the client's address
// within the last thirty days.
func (s *Service) UsualAddress(ctx context.Context, email string, from audit.Client) (usual bool, err error) {
	if from.Address == "" {
		return false, nil
	}
	err = s.DB.QueryRow(unscoped(ctx), selectUsual, strings.ToLower(strings.TrimSpace(email)), from.Address).Scan(&usual)
	if err != nil {
		return false, fmt.Errorf("reading the addresses of a user: %w", err)
	}
	return usual, nil
}
