package fleet

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/event"
)

const (
	// tokenLife is the longest that an enrolment token may wait for its node.
	tokenLife = 15 * time.Minute
	// reservedFor outlasts every authority that is waited for.
	reservedFor = 30 * time.Second
	tokenBytes  = 32
)

// EnrolmentToken creates the single-use token of an enrolment. It is displayed once, and only its hash
// is stored. Older tokens of the node become invalid.
func (s *Service) EnrolmentToken(ctx context.Context, tx pgx.Tx, id ids.Node) (token string, expires time.Time, err error) {
	secret := make([]byte, tokenBytes)
	if _, err := rand.Read(secret); err != nil {
		return "", time.Time{}, fmt.Errorf("drawing token: %w", err)
	}
	token = "gpe_" + base64.RawURLEncoding.EncodeToString(secret)
	if err := s.RevokeTokens(ctx, tx, id); err != nil {
		return "", time.Time{}, err
	}
	err = tx.QueryRow(ctx, insertToken, hashOf(token), id, min(s.TokenLife(), tokenLife)).Scan(&expires)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", time.Time{}, errs.New(errs.NotFound, "no such node")
	}
	if err != nil {
		return "", time.Time{}, fmt.Errorf("storing token: %w", err)
	}
	return token, expires, nil
}

// RevokeTokens ends the tokens of a node that wait to be used.
func (s *Service) RevokeTokens(ctx context.Context, tx pgx.Tx, id ids.Node) error {
	if _, err := tx.Exec(ctx, lockTokens, id); err != nil {
		return fmt.Errorf("locking tokens of %s: %w", id, err)
	}
	// Another statement than the lock: it sees what was made while we waited.
	if _, err := tx.Exec(ctx, revokeTokens, id); err != nil {
		return fmt.Errorf("revoking tokens of %s: %w", id, err)
	}
	return nil
}

// Redemption is an enrolment token that one enrolment has reserved until it is spent or released.
type Redemption struct {
	Node ids.Node

	hash []byte
	by   uuid.UUID
}

// ReserveToken returns the node of a token and reserves the token while a certificate is made. Of
// several concurrent calls, one succeeds.
func (s *Service) ReserveToken(ctx context.Context, token string) (r Redemption, err error) {
	r.hash, r.by = hashOf(token), uuid.New()
	err = s.DB.QueryRow(ctx, reserveToken, r.hash, r.by, reservedFor).Scan(&r.Node)
	if errors.Is(err, pgx.ErrNoRows) {
		return r, tokenInvalid()
	}
	if err != nil {
		return r, fmt.Errorf("reserving token: %w", err)
	}
	return r, nil
}

// ReleaseToken gives a token back that no certificate came of.
func (s *Service) ReleaseToken(ctx context.Context, r Redemption) error {
	if _, err := s.DB.Exec(ctx, releaseToken, r.hash, r.by); err != nil {
		return fmt.Errorf("giving a token back: %w", err)
	}
	return nil
}

// SpendToken ends a reserved token, stores the key with which the node will sign proofs, and emits the event. Without a
// key the node cannot prove anything.
func (s *Service) SpendToken(ctx context.Context, tx pgx.Tx, r Redemption, proofKey []byte) error {
	var node ids.Node
	err := tx.QueryRow(ctx, spendToken, r.hash, r.by).Scan(&node)
	if errors.Is(err, pgx.ErrNoRows) {
		return tokenInvalid() // revoked, expired or retired meanwhile
	}
	if err != nil {
		return fmt.Errorf("spending token: %w", err)
	}
	if len(proofKey) != ed25519.PublicKeySize {
		proofKey = nil
	}
	if _, err := tx.Exec(ctx, setEnrolled, node, proofKey); err != nil {
		return fmt.Errorf("enrolling %s: %w", node, err)
	}
	return s.emitEnrolled(ctx, tx, r)
}

// SubjectNodeEnrolled is the subject of an enrolment, the first one of a node or a later one.
const SubjectNodeEnrolled = "fleet.node_enrolled"

// EnrolledEvent is the payload of fleet.node_enrolled.
type EnrolledEvent struct {
	Node   string `json:"node_id"`
	Name   string `json:"name"`
	Region string `json:"region"`
}

func (s *Service) emitEnrolled(ctx context.Context, tx pgx.Tx, r Redemption) error {
	payload := EnrolledEvent{Node: r.Node.String()}
	if err := tx.QueryRow(ctx, selectEnrolled, r.Node).Scan(&payload.Name, &payload.Region); err != nil {
		return fmt.Errorf("reading node %s: %w", r.Node, err)
	}
	b := &pgx.Batch{}
	event.Queue(b, event.Draft{
		Stream: event.StreamFleet, Subject: SubjectNodeEnrolled, Aggregate: "enrolment:" + r.by.String(), Sequence: 1,
		URN: s.Urn("node", r.Node.String()), Payload: payload,
	})
	return wrap(tx.SendBatch(ctx, b).Close(), SubjectNodeEnrolled, r.Node)
}

// LockActive rejects a retired node, and prevents the node from retiring until the transaction ends.
func (s *Service) LockActive(ctx context.Context, tx pgx.Tx, id ids.Node) error {
	var speaks bool
	err := tx.QueryRow(ctx, lockSpeaker, id).Scan(&speaks)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("reading node %s: %w", id, err)
	}
	if !speaks {
		return errs.New(errs.CertificateRevoked, "this node is retired")
	}
	return nil
}

// Retired lists the nodes whose certificates are all rejected.
func (s *Service) Retired(ctx context.Context) (map[ids.Node]struct{}, error) {
	rows, err := s.DB.Query(ctx, selectRetired)
	if err != nil {
		return nil, fmt.Errorf("reading retired nodes: %w", err)
	}
	retired := map[ids.Node]struct{}{}
	var id ids.Node
	if _, err := pgx.ForEachRow(rows, []any{&id}, func() error {
		retired[id] = struct{}{}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("reading retired nodes: %w", err)
	}
	return retired, nil
}

func hashOf(token string) []byte {
	hash := sha256.Sum256([]byte(token))
	return hash[:]
}

func tokenInvalid() error {
	return errs.New(errs.EnrolmentTokenInvalid, "this enrolment token is unknown, used, replaced or expired").
		Try("request a new token from an operator; a token is valid for 15 minutes and one use")
}
