package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"golang.org/x/sync/errgroup"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
)

const (
	// batchSize limits the deliveries that a killed worker sends twice.
	batchSize = 64
	// deliverFor limits the time of a job: the workers change to other endpoints. With one more request it ends long
	// before River starts the job of a killed worker again.
	deliverFor = 10 * time.Second
	// maxImpaired limits the workers that wait for failing and for slow endpoints, so that others find a free one.
	maxImpaired = Workers / 2
	// slowLatency is the latency above which an endpoint is slow.
	slowLatency = 5 * time.Second
)

// ErrBusy reports that enough workers wait for failing and for slow endpoints. The job is tried again later.
var ErrBusy = errors.New("enough failing or slow webhook endpoints are served")

// due is a delivery to send.
type due struct {
	ID       uuid.UUID
	Event    ids.Event
	Body     string
	Attempts int
}

// outcome is the result of a delivery.
type outcome struct {
	due
	result
}

// Deliver sends what is due to an endpoint, until nothing is, or the time of the job is over. It may end early: the job is
// followed by the next one.
func (s *Service) Deliver(ctx context.Context, id ids.Webhook) error {
	end := s.Clock.Now().Add(deliverFor)
	for s.Clock.Now().Before(end) {
		e, err := pg.One(ctx, s.DB, "webhook", selectActive, scanEndpoint, id)
		if errs.CodeOf(err) == errs.NotFound {
			return nil // deleted, disabled, or to be left alone
		}
		if err != nil {
			return err
		}
		batch, err := pg.List(ctx, s.DB, "deliveries", selectDue, pgx.RowToStructByPos[due], id, batchSize)
		if err != nil || len(batch) == 0 {
			return err
		}
		more, err := s.deliverBatch(ctx, e, batch, end)
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// deliverBatch reports whether the endpoint wants more.
func (s *Service) deliverBatch(ctx context.Context, e Endpoint, batch []due, end time.Time) (more bool, err error) {
	_, slow := s.slow.Load(e.ID)
	if e.FailingSince != nil || slow {
		select {
		case s.impaired <- struct{}{}:
			defer func() { <-s.impaired }()
		default:
			return false, ErrBusy
		}
	}
	if e.FailingSince != nil {
		batch = batch[:1] // one request finds out whether it works again
	}
	keys, err := s.keysOf(ctx, e)
	if err != nil {
		return false, err
	}
	outcomes := s.sendAll(ctx, e, keys, batch, end)
	failpoint.Hit("webhook.after_send")
	if len(outcomes) == 0 {
		return false, nil // the server stops: the endpoint has neither failed nor recovered
	}
	s.rememberSlow(e.ID, outcomes)
	return s.record(ctx, e, outcomes)
}

// rememberSlow stores whether the endpoint is slow, for the next batch.
func (s *Service) rememberSlow(id ids.Webhook, outcomes []outcome) {
	for _, o := range outcomes {
		if o.LatencyMS > slowLatency.Milliseconds() {
			s.slow.Store(id, struct{}{})
			return
		}
	}
	s.slow.Delete(id)
}

// sendAll sends a batch, some at the same time. It begins no request after the end of the job's time, or after a response
// that slows the endpoint down.
func (s *Service) sendAll(ctx context.Context, e Endpoint, keys []key, batch []due, end time.Time) []outcome {
	outcomes, sent := make([]outcome, len(batch)), make([]bool, len(batch))
	var stop atomic.Bool
	var sending errgroup.Group
	sending.SetLimit(perEndpoint)
	for i, d := range batch {
		sending.Go(func() error {
			if stop.Load() || ctx.Err() != nil || i > 0 && !s.Clock.Now().Before(end) {
				return nil //nolint:nilerr // the next job sends it
			}
			r := s.Sender.send(ctx, e, keys, message{id: d.Event.String(), body: []byte(d.Body)}, s.Clock.Now)
			if ctx.Err() != nil && !r.Delivered {
				return nil // the server stops; the receiver has not failed
			}
			s.Metrics.count(r)
			if r.after > 0 || r.gone {
				stop.Store(true)
			}
			outcomes[i], sent[i] = outcome{d, r}, true
			return nil
		})
	}
	_ = sending.Wait()
	var all []outcome
	for i, o := range outcomes {
		if sent[i] {
			all = append(all, o)
		}
	}
	return all
}

// record stores the results and what they mean for the endpoint, in one transaction.
func (s *Service) record(ctx context.Context, e Endpoint, outcomes []outcome) (more bool, err error) {
	change := changeOf(outcomes)
	var topics []string
	err = pgx.BeginFunc(context.WithoutCancel(ctx), s.DB, func(tx pgx.Tx) error {
		var state state
		row := tx.QueryRow(ctx, updateState, e.ID, change.delivered, change.failed, change.pause, disableAfter)
		if err := row.Scan(&state.expired, &state.recovered); err != nil {
			if errors.Is(err, pgx.ErrNoRows) { // deleted or disabled meanwhile; what was delivered must not be sent again
				return storeResults(ctx, tx, outcomes)
			}
			return fmt.Errorf("storing the state of a webhook: %w", err)
		}
		if err := storeResults(ctx, tx, outcomes); err != nil {
			return err
		}
		more = change.failed == 0 && !change.gone
		topics, err = s.changeState(ctx, tx, e, change, state)
		return err
	})
	if err == nil {
		for _, topic := range topics {
			s.Identity.Hints.Send(topic)
		}
	}
	return more, err
}

// changed is the consequence of a batch for its endpoint.
type changed struct {
	delivered, failed int
	pause             time.Duration
	gone              bool
}

func changeOf(outcomes []outcome) (c changed) {
	for _, o := range outcomes {
		if o.Delivered {
			c.delivered++
		} else {
			c.failed++
		}
		c.pause, c.gone = max(c.pause, o.after), c.gone || o.gone
	}
	return c
}

// results are the columns of updateResults.
type results struct {
	ids       []uuid.UUID
	attempts  []int
	status    []string
	pauses    []float64 // seconds
	log       []string
	responses []string
}

func storeResults(ctx context.Context, tx pgx.Tx, outcomes []outcome) error {
	var r results
	for _, o := range outcomes {
		if err := r.add(o); err != nil {
			return err
		}
	}
	sorted := slices.SortedFunc(slices.Values(r.ids), func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	if _, err := tx.Exec(ctx, updateResults, r.ids, r.attempts, r.status, r.pauses, r.log, r.responses, sorted[0], sorted[len(sorted)-1]); err != nil {
		return fmt.Errorf("storing the results of a webhook: %w", err)
	}
	return nil
}

func (r *results) add(o outcome) error {
	status, pause := "delivered", time.Duration(0)
	if !o.Delivered {
		var again bool
		if pause, again = pauseAfter(o.Attempts + 1); again {
			status = "pending"
		} else {
			status = "failed"
		}
	}
	attempt, err := json.Marshal(o.Attempt)
	if err != nil {
		return fmt.Errorf("encoding an attempt: %w", err)
	}
	r.ids, r.attempts, r.status = append(r.ids, o.ID), append(r.attempts, o.Attempts), append(r.status, status)
	r.pauses, r.log, r.responses = append(r.pauses, pause.Seconds()), append(r.log, string(attempt)), append(r.responses, o.response)
	return nil
}

// StoreDue ends a job of an endpoint: it stores when the next delivery is due. The endpoint is locked first, so that an event
// that is dispatched meanwhile is found, or queues the next job.
func (*Service) StoreDue(ctx context.Context, tx pgx.Tx, id ids.Webhook) (now bool, err error) {
	if _, err := tx.Exec(ctx, lockEndpoint, id); err != nil {
		return false, fmt.Errorf("locking a webhook: %w", err)
	}
	row := tx.QueryRow(ctx, storeDue, id)
	if err := row.Scan(&now); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return false, fmt.Errorf("storing when a webhook is due: %w", err)
	}
	return now, nil
}

// Continue queues the next job of an endpoint.
func (s *Service) Continue(ctx context.Context, id ids.Webhook) error {
	if _, err := s.Jobs.Insert(ctx, DeliverWebhook{Endpoint: id.UUID}, nil); err != nil {
		return fmt.Errorf("queueing a webhook: %w", err)
	}
	return nil
}

// RetryDue reports whether an endpoint has a delivery that is due again.
func (s *Service) RetryDue(ctx context.Context) (exists bool, err error) {
	if err = s.DB.QueryRow(ctx, existsRetry).Scan(&exists); err != nil {
		return false, fmt.Errorf("finding webhooks to retry: %w", err)
	}
	return exists, nil
}

// retryBatch limits the jobs of one statement.
const retryBatch = 1_000

// QueueRetries queues the jobs of endpoints that are due again. An endpoint that has a job gets no second one.
func (s *Service) QueueRetries(ctx context.Context) error {
	due, err := pg.List(ctx, s.DB, "webhooks to retry", selectRetries, pgx.RowTo[uuid.UUID], retryBatch)
	if err != nil || len(due) == 0 {
		return err
	}
	all := make([]river.InsertManyParams, len(due))
	for i, id := range due {
		all[i].Args = DeliverWebhook{Endpoint: id}
	}
	if _, err := s.Jobs.InsertMany(ctx, all); err != nil {
		return fmt.Errorf("queueing webhooks: %w", err)
	}
	return nil
}
