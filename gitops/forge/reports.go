package forge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// Report is a status of a commit or a comment on a pull request that a forge should display.
type Report struct {
	Source  string
	Subject string // a commit, or pull/N
	Context string
	State   State // empty for a comment
	Body    string
	URL     string
}

// OfCommit is a status as a report.
func OfCommit(source, commit string, s Status) Report {
	return Report{Source: source, Subject: commit, Context: s.Context, State: s.State, Body: s.Text, URL: s.URL}
}

// OfPull is the comment of a pull request as a report.
func OfPull(source string, pull int, body string) Report {
	return Report{Source: source, Subject: pullSubject + strconv.Itoa(pull), Context: contextComment, Body: body}
}

const pullSubject = "pull/"

// Queue enqueues jobs within a transaction.
type Queue interface {
	InsertTx(ctx context.Context, tx pgx.Tx, args river.JobArgs, opts *river.InsertOpts) (*rivertype.JobInsertResult, error)
}

// Reports stores the reports for forges and sends them.
type Reports struct {
	DB   pg.Pool
	Jobs Queue
}

// Put writes down what a forge should show from now on, and enqueues the telling
// with it. What it shows already costs nothing.
func (r *Reports) Put(ctx context.Context, tx pgx.Tx, reports []Report) error {
	type row struct {
		Source  string `json:"source"`
		Subject string `json:"subject"`
		Context string `json:"context"`
		State   State  `json:"state"`
		Body    string `json:"body"`
		URL     string `json:"url"`
		Hash    string `json:"hash"`
	}
	// One statement may change a row once, so the last report of a subject counts.
	last := map[[3]string]row{}
	for _, w := range reports {
		w.Body = strings.ReplaceAll(strings.ToValidUTF8(w.Body, "�"), "\x00", "�")
		last[[3]string{w.Source, w.Subject, w.Context}] = row{w.Source, w.Subject, w.Context, w.State, w.Body, w.URL, w.hash()}
	}
	rows := make([]row, 0, len(last))
	sources := []string{}
	for key, one := range last {
		rows = append(rows, one)
		if !slices.Contains(sources, key[0]) {
			sources = append(sources, key[0])
		}
	}
	tag, err := tx.Exec(ctx, wantReports, rows)
	if err != nil {
		return fmt.Errorf("storing what the forge should show: %w", err)
	}
	if tag.RowsAffected() == 0 || r.Jobs == nil {
		return nil
	}
	// Sort the sources. Two transactions that queue jobs for the same sources would otherwise
	// deadlock.
	slices.Sort(sources)
	for _, source := range sources {
		if _, err := r.Jobs.InsertTx(ctx, tx, ReportForge{Source: source}, nil); err != nil {
			return fmt.Errorf("enqueueing what the forge should show: %w", err)
		}
	}
	return nil
}

func (r Report) hash() string {
	text, _ := json.Marshal([]string{string(r.State), r.Body, r.URL}) // strings always encode
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

const (
	// lease exceeds the time of one report: an edit, a search through many comments, and a new
	// comment.
	lease = 2 * time.Minute
	// Reports that could not be sent for a week are deleted: no user waits for them any more.
	deleteAfter = 7 * 24 * time.Hour
	// Between attempts: doubled from the one to the other.
	firstBackoff = 5 * time.Second
	lastBackoff  = 10 * time.Minute
)

func backoff(attempts int) time.Duration {
	wait := firstBackoff
	for ; attempts > 1 && wait < lastBackoff; attempts-- {
		wait *= 2
	}
	return min(wait, lastBackoff)
}

// lockedReport is a report that this process is sending.
type lockedReport struct {
	Report

	hash     string
	remoteID string
	attempts int
}

// Send sends at most limit pending reports of a source. If the forge is unavailable or requests a
// pause, the remaining reports are delayed together with the failed one. Send returns only database
// errors; errors of the forge are stored in the rows.
func (r *Reports) Send(ctx context.Context, source string, f Forge, limit int) error {
	for range limit {
		one, ok, err := r.lockNext(ctx, source)
		if err != nil || !ok {
			return err
		}
		remoteID, err := one.send(ctx, f)
		if ctx.Err() != nil {
			return ctx.Err() // ours, not the forge's: the lease runs out
		}
		if err == nil {
			_, err = r.DB.Exec(ctx, markSent, source, one.Subject, one.Context, one.hash, remoteID)
			if err != nil {
				return fmt.Errorf("marking a forge report as sent: %w", err)
			}
			continue
		}
		if stop, err := r.failed(ctx, source, one, err); stop || err != nil {
			return err
		}
	}
	return nil
}

func (r *Reports) lockNext(ctx context.Context, source string) (one lockedReport, ok bool, err error) {
	one.Source = source
	err = r.DB.QueryRow(ctx, lockReport, source, lease, deleteAfter).
		Scan(&one.Subject, &one.Context, &one.State, &one.Body, &one.URL, &one.hash, &one.remoteID, &one.attempts)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return lockedReport{}, false, nil
	case err != nil:
		return lockedReport{}, false, fmt.Errorf("taking what the forge should show: %w", err)
	}
	return one, true, nil
}

func (t lockedReport) send(ctx context.Context, f Forge) (remoteID string, err error) {
	pull, isPull := strings.CutPrefix(t.Subject, pullSubject)
	if !isPull {
		return "", f.Status(ctx, t.Subject, Status{Context: t.Context, State: t.State, Text: t.Body, URL: t.URL})
	}
	n, err := strconv.Atoi(pull)
	if err != nil {
		return "", fmt.Errorf("reading the number of a pull request: %w", err)
	}
	return f.Comment(ctx, Comment{Pull: n, RemoteID: t.remoteID, Marker: Marker(t.Source), Body: t.Body})
}

// failed delays a report. An error that concerns only this report does not delay the others.
func (r *Reports) failed(ctx context.Context, source string, one lockedReport, why error) (stop bool, err error) {
	wait := max(backoff(one.attempts), Pause(why))
	if _, err := r.DB.Exec(ctx, reportFailed, source, one.Subject, one.Context, reason(why), wait); err != nil {
		return true, fmt.Errorf("storing the error of a forge report: %w", err)
	}
	if code := errs.CodeOf(why); code != errs.RateLimited && code != errs.Unavailable {
		return false, nil
	}
	return true, r.PutOff(ctx, source, why, wait)
}

// PutOff delays all pending reports of a source and stores the reason.
func (r *Reports) PutOff(ctx context.Context, source string, why error, wait time.Duration) error {
	if _, err := r.DB.Exec(ctx, pauseReports, source, reason(why), wait, deleteAfter); err != nil {
		return fmt.Errorf("putting off what the forge should show: %w", err)
	}
	return nil
}

// Pending returns the time of the next report for each source with pending reports, or for the
// given source only.
func (r *Reports) Pending(ctx context.Context, q pg.Queryer, source string) (map[string]time.Time, error) {
	rows, err := q.Query(ctx, selectPending, deleteAfter, source)
	if err != nil {
		return nil, fmt.Errorf("reading pending forge reports: %w", err)
	}
	untold := map[string]time.Time{}
	var name string
	var at time.Time
	if _, err := pgx.ForEachRow(rows, []any{&name, &at}, func() error {
		untold[name] = at
		return nil
	}); err != nil {
		return nil, fmt.Errorf("reading pending forge reports: %w", err)
	}
	return untold, nil
}

// reportStatus is a report with what became of it.
type reportStatus struct {
	Report

	Sent     bool
	RemoteID string
	Attempts int
	Fault    string
}

// Of lists the newest reports of a source, of one subject or, empty, of all.
func (r *Reports) Of(ctx context.Context, source, subject string, limit int) ([]reportStatus, error) {
	rows, err := r.DB.Query(ctx, selectReports, source, subject, limit)
	if err != nil {
		return nil, fmt.Errorf("reading what the forge should show: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (s reportStatus, err error) {
		s.Source = source
		err = row.Scan(&s.Subject, &s.Context, &s.State, &s.Body, &s.URL, &s.Sent, &s.RemoteID, &s.Attempts, &s.Fault)
		return s, err
	})
}
