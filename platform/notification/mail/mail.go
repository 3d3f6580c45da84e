// Package mail renders e-mails and defines the port that sends them. It decides nothing about recipients.
package mail

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/gpuaas/gpuaas/internal/riverjob"
)

// Message is one e-mail to one address.
type Message struct {
	ID             string // without brackets; a repetition has the same
	From, To       string
	Subject        string
	Text, HTML     string
	Thread         string // id of the first message about the same object; empty: none
	UnsubscribeURL string // of the one-click request; empty: none
	CorrelationID  string // of the request that caused the only notification; empty: none
	Kind           string // for the log
}

// Mailer sends e-mails. An error that is no Rejected or Busy is temporary.
type Mailer interface {
	Send(ctx context.Context, m Message) error
}

// RejectedError is the response of a mail server that will not change: the address receives no mail.
type RejectedError struct {
	Code int
	Text string
}

func (e *RejectedError) Error() string {
	return fmt.Sprintf("the mail server rejects the address: %s", e.Text)
}

// BusyError means that the domain of the recipient may receive the next mail later.
type BusyError struct{ After time.Duration }

func (e *BusyError) Error() string { return "the rate of the domain is reached" }

// Log is the Mailer of an installation without a mail server.
type Log struct{ *slog.Logger }

// Send logs the kind and the id. The address is personal, and the log is not.
func (l Log) Send(ctx context.Context, m Message) error {
	l.InfoContext(ctx, "an e-mail is not sent: the profile names no mail server", "component", "mail", "kind", m.Kind, "message_id", m.ID)
	return nil
}

// Source is the kind of row that an e-mail is written from.
type Source string

// The sources.
const (
	FromNotification Source = "notification"
	FromDigest       Source = "digest"
	FromInvitation   Source = "invitation"
)

// SendMail requests one e-mail.
type SendMail struct {
	Source Source    `json:"source" river:"unique"`
	ID     uuid.UUID `json:"id"     river:"unique"`
}

// Kind names the job to River.
func (SendMail) Kind() string { return "send_mail" }

// InsertOpts bounds the attempts. A job of the past also counts: one e-mail is sent for each source.
func (SendMail) InsertOpts() river.InsertOpts {
	return river.InsertOpts{
		Queue: riverjob.QueueNotify, MaxAttempts: len(Delays()) + 1,
		UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: append(riverjob.Unfinished(), rivertype.JobStateCompleted)},
	}
}

// Delays are the times between the attempts, which together last 48 hours. A mail server that defers unknown senders accepts
// the second or the third attempt.
func Delays() []time.Duration {
	return []time.Duration{
		time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 3 * time.Hour, 7 * time.Hour, 12 * time.Hour, 12 * time.Hour, 12*time.Hour + 39*time.Minute,
	}
}
