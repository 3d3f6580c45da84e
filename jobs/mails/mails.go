// Package mails contains the workers that send e-mails and collect digests.
package mails

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/riverjob"
	"github.com/gpuaas/gpuaas/platform/notification"
	"github.com/gpuaas/gpuaas/platform/notification/mail"
)

// AddWorkers adds the workers of this package.
func AddWorkers(w *river.Workers, n *notification.Service) {
	river.AddWorker(w, &sendMail{notifications: n})
	river.AddWorker(w, &sendDigest{notifications: n})
}

type sendMail struct {
	river.WorkerDefaults[mail.SendMail]

	notifications *notification.Service
}

// sendWithin is shorter than the time after which River starts the job of a killed worker again.
const sendWithin = 60 * time.Second

// Timeout covers a slow mail server.
func (w *sendMail) Timeout(*river.Job[mail.SendMail]) time.Duration { return sendWithin }

// NextRetry is the time of the next attempt.
func (w *sendMail) NextRetry(job *river.Job[mail.SendMail]) time.Time {
	delays := mail.Delays()
	return clock.Clock{}.Now().Add(delays[min(job.Attempt, len(delays))-1])
}

// Work sends one e-mail. A worker that is killed after the server has accepted the e-mail sends it again, with the same id.
func (w *sendMail) Work(ctx context.Context, job *river.Job[mail.SendMail]) error {
	err := w.notifications.Send(ctx, job.Args)
	if err == nil {
		return nil
	}
	if busy, ok := errors.AsType[*mail.BusyError](err); ok {
		return river.JobSnooze(busy.After)
	}
	_, rejected := errors.AsType[*mail.RejectedError](err)
	_, invalid := errors.AsType[*notification.InvalidError](err)
	if rejected || invalid {
		return river.JobCancel(err) // another attempt would fail, too
	}
	if job.Attempt >= job.MaxAttempts {
		w.notifications.GaveUp(job.Args)
	}
	return fmt.Errorf("attempt %d: %w", job.Attempt, err)
}

// SendDigest queues the e-mails of digests that are due, and those of new invitations.
type SendDigest struct{}

// Kind names the job to River.
func (SendDigest) Kind() string { return "send_digest" }

// InsertOpts allows one waiting job at most.
func (SendDigest) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: riverjob.QueueNotify, MaxAttempts: 3, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: riverjob.Unfinished()}}
}

type sendDigest struct {
	river.WorkerDefaults[SendDigest]

	notifications *notification.Service
}

func (w *sendDigest) Work(ctx context.Context, _ *river.Job[SendDigest]) error {
	return errors.Join(w.notifications.QueueDigests(ctx), w.notifications.QueueInvitations(ctx))
}
