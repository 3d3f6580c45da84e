package identity

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// HashForTest is a password's hash with another cost than ours.
func HashForTest(password string, memory, passes uint32) string {
	c := cost{memory: memory, passes: passes, threads: 1}
	salt := []byte("0123456789abcdef")
	return c.text(salt, c.key(password, salt, hashBytes))
}

// StartSession starts a session of a person, without a proof of who they are.
func (s *Service) StartSession(ctx context.Context, n NewSession) (token string, info SessionInfo, err error) {
	ctx = unscoped(ctx)
	var started Started
	err = s.signing(ctx, func(tx pgx.Tx) error {
		u, err := queryOne(ctx, tx, "user", selectUser, scanUser, n.User)
		if err != nil {
			return err
		}
		started, err = s.enter(ctx, tx, u, n)
		return err
	})
	return started.Token, started.Session, err
}
