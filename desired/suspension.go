package desired

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Suspend stops the control loop from requesting new actions for an object.
func (s *Store) Suspend(ctx context.Context, tx pgx.Tx, n Name, by Suspension) (Object, error) {
	o, err := s.Lock(ctx, tx, n.Kind, n.Scope, n.Name)
	if err != nil {
		return Object{}, err
	}
	return s.touch(ctx, tx, o, suspendObject, by.By, by.Reason, by.Until)
}

// Resume ends a suspension.
func (s *Store) Resume(ctx context.Context, tx pgx.Tx, n Name) (Object, error) {
	o, err := s.Lock(ctx, tx, n.Kind, n.Scope, n.Name)
	if err != nil {
		return Object{}, err
	}
	return s.touch(ctx, tx, o, resumeObject)
}

// SuspensionRow is a suspension as a row stores it. By is empty without a suspension.
type SuspensionRow struct {
	Suspension

	At *time.Time
}

// Active returns the suspension, or nil without one.
func (s SuspensionRow) Active() *Suspension {
	if s.By == "" || s.At == nil {
		return nil
	}
	s.Suspension.At = *s.At
	return &s.Suspension
}
