package notification

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
	mails "github.com/gpuaas/gpuaas/platform/notification/mail"
)

// Subscription lists the kinds whose e-mails a link ends.
type Subscription struct {
	Titles []string // of the kinds
	Ended  bool     // all of them before

	link  mails.Link
	kinds []string
}

// Subscription reads a link and changes nothing. The link is the only credential of its holder.
func (s *Service) Subscription(ctx context.Context, token string) (Subscription, error) {
	link, err := mails.ParseLink(token)
	if err != nil {
		return Subscription{}, err
	}
	ctx = pg.WithScope(ctx, pg.Platform)
	var address string
	var deleted bool
	var key []byte
	err = s.DB.QueryRow(ctx, selectSubscriber, link.User).Scan(&address, &deleted, &key)
	switch {
	case err != nil && !errors.Is(err, pgx.ErrNoRows):
		return Subscription{}, fmt.Errorf("reading the user of a link: %w", err)
	case deleted:
		return Subscription{}, errs.New(errs.NotFound, "the user of this link is deleted and receives no e-mails")
	case err != nil, !link.Valid(key, address):
		return Subscription{}, errs.New(errs.NotFound, "the link is not valid: it was changed or revoked, or the user has another address now").
			Try("change your preferences in the portal")
	}
	all, err := read(ctx, s.DB, []uuid.UUID{link.User})
	if err != nil {
		return Subscription{}, err
	}
	sub := Subscription{link: link, Ended: true}
	for _, name := range link.Kinds {
		if k, err := kindOrTest(name); err == nil {
			sub.kinds, sub.Titles = append(sub.kinds, name), append(sub.Titles, k.title)
			sub.Ended = sub.Ended && all[link.User].Choices[name][Email] == Off
		}
	}
	return sub, nil
}

// Unsubscribe ends the e-mails of a link. A second request changes nothing.
func (s *Service) Unsubscribe(ctx context.Context, token string, by audit.By) (Subscription, error) {
	sub, err := s.Subscription(ctx, token)
	if err != nil || sub.Ended {
		return sub, err
	}
	user := sub.link.User
	by.Actor = "user:" + user.String()
	return sub, pgx.BeginFunc(pg.WithScope(ctx, pg.Platform), s.DB, func(tx pgx.Tx) error {
		row, err := pg.One(ctx, tx, "notification preferences", lockPreferences, pgx.RowToStructByPos[stored], user)
		if err != nil {
			return err
		}
		p, err := row.preferences()
		if err != nil {
			return err
		}
		b := &pgx.Batch{}
		b.Queue(putChoices, user, document(p.Choices.without(sub.kinds)))
		audit.Queue(b, audit.Entry{
			By: by, Action: "user.unsubscribe", Target: s.Naming.Name("", "", "user", user.String()).String(), After: map[string]any{"kinds": sub.kinds},
		})
		return tx.SendBatch(ctx, b).Close()
	})
}

// without returns the choices without the e-mails of these kinds.
func (c Choices) without(kinds []string) Choices {
	if c == nil {
		c = Choices{}
	}
	for _, name := range kinds {
		if c[name] == nil {
			c[name] = map[Channel]Value{}
		}
		c[name][Email] = Off
	}
	return c
}
