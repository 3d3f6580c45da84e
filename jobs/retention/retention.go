// Package retention removes rows that are older than the policies allow: it drops old monthly partitions, exports audit rows
// before that, and deletes old rows of small tables in batches. It decides nothing about single rows: the owner of a table
// has the statement, and the database rejects partitions that are still needed.
package retention

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/gitops/forge"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/jobs/nodetask"
	"github.com/gpuaas/gpuaas/observed"
	"github.com/gpuaas/gpuaas/platform/event/consume"
	"github.com/gpuaas/gpuaas/platform/evidence"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/signin"
	"github.com/gpuaas/gpuaas/platform/notification"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/terminal"
	"github.com/gpuaas/gpuaas/product/terminal/logstream"
	"github.com/gpuaas/gpuaas/product/terminal/recording"
	"github.com/gpuaas/gpuaas/reconciler"
	"github.com/gpuaas/gpuaas/services"
)

// Month is a table whose old months are dropped.
type Month struct {
	Table string
	Days  policies.IntKey
	// Later is added to the days.
	Later int64
}

// days returns the retention of the table.
func (m Month) days(v policies.View) time.Duration { return time.Duration(v.Int(m.Days)+m.Later) * day }

// Months lists these tables. Actions precede the plans that they refer to.
func Months() []Month {
	return []Month{
		{"outbox_events", policies.EventOutboxDays, 0},
		{"inbox", policies.EventOutboxDays, 31}, // as long as an event can be published again
		{"notifications", policies.HistoryDays, 0},
		{"webhook_deliveries", policies.HistoryDays, 0},
		{"audit_logs", policies.AuditDays, 0},
		{"plan_actions", policies.HistoryDays, 0},
		{"plans", policies.HistoryDays, 0},
		{"allocation_transitions", policies.AuditDays, 0},
	}
}

// batch deletes some rows of one table. The comment of each function has the reason why the table has no partitions.
type batch struct {
	table  string
	key    policies.IntKey
	unit   time.Duration
	remove func(ctx context.Context, q pg.Queryer, age time.Duration, limit int) (int64, error)
}

const day = 24 * time.Hour

func batches() []batch {
	return []batch{
		{"idempotency_keys", policies.APIIdempotencyHours, time.Hour, identity.ForgetReplies},
		{"revoked_tokens", policies.HistoryDays, day, signin.ForgetRevoked},
		{"sessions", policies.HistoryDays, day, signin.DeleteEndedSessions},
		{"sign_in_links", policies.HistoryDays, day, signin.DeleteExpiredLinks},
		{"ssh_certificates", policies.HistoryDays, day, allocation.ForgetCertificates},
		{"terminal_tokens", policies.HistoryDays, day, terminal.DeleteTokens},
		{"log_streams", policies.HistoryDays, day, logstream.DeleteSilent},
		{"terminal_sessions", policies.HistoryDays, day, terminal.DeleteSessions},
		{"terminal_recordings", policies.TerminalRecordingDays, day, recording.DeleteRecordings},
		{"terminal_recording_chunks", policies.TerminalRecordingDays, day, recording.DeleteChunks},
		{"certificates", policies.HistoryDays, day, secret.DeleteExpired},
		{"node_tasks", policies.HistoryDays, day, nodetask.DeleteEnded},
		{"observed_allocations", policies.HistoryDays, day, observed.ForgetAllocations},
		{"drift", policies.HistoryDays, day, reconciler.DeleteHealed},
		{"inbox_heads", policies.EventOutboxDays, day, consume.DeleteHeads},
		{"dead_letters", policies.HistoryDays, day, consume.DeleteLetters},
		{"event_replays", policies.HistoryDays, day, consume.DeleteReplays},
		{"notification_digests", policies.HistoryDays, day, notification.DeleteDigests},
		{"suppressed_addresses", policies.HistoryDays, day, notification.DeleteSuppressed},
		{"invitation_mails", policies.HistoryDays, day, notification.DeleteInvitationMails},
		{"notification_preferences", policies.HistoryDays, day, notification.DeletePreferences},
		{"evidence_bundles", policies.EvidenceDays, day, evidence.DeleteOld},
		{"forge_reports", policies.HistoryDays, day, forge.DeleteReports},
		{"forge_pushes", policies.HistoryDays, day, forge.DeletePushes},
		{"desired_revisions", policies.AuditDays, day, revision.DeleteOld},
		// The row of a minute is written again a day later: only those of nodes that report no more are deleted.
		{"gpu_readings", policies.HistoryDays, day, func(ctx context.Context, q pg.Queryer, _ time.Duration, limit int) (int64, error) {
			return observed.ForgetReadings(ctx, q, limit)
		}},
	}
}

// Tables lists the tables whose old rows are removed. River removes its finished jobs by itself.
func Tables() (all []string) {
	for _, m := range Months() {
		all = append(all, m.Table)
	}
	for _, b := range batches() {
		all = append(all, b.table)
	}
	return append(all, "river.river_job")
}

// batchRows limits the rows of one statement, so that requests that store rows wait only briefly.
const batchRows = 5000

// monthsAhead leaves a quarter to notice that the job has stopped.
const monthsAhead = 3

// Make creates the partitions of the months ahead. A server also does it before it serves, because it may have been away
// for longer than they reach.
func Make(ctx context.Context, q pg.Queryer) error {
	if _, err := q.Exec(ctx, `SELECT make_partitions($1)`, monthsAhead); err != nil {
		return fmt.Errorf("making partitions: %w", err)
	}
	return nil
}

// Run creates and drops partitions and deletes old rows. A table that fails does not prevent the others.
func Run(ctx context.Context, s *services.Services, log *slog.Logger) error {
	failures := []error{Make(ctx, s.DB)}
	now, policy := s.Clock.Now(), s.Policies.Latest().For()
	for _, m := range Months() {
		before := now.Add(-m.days(policy))
		if m.Table == "audit_logs" {
			_, err := s.Audit.ArchiveMonths(ctx, before)
			failures = append(failures, err)
		}
		var n int
		if err := s.DB.QueryRow(ctx, `SELECT drop_partitions($1, $2)`, m.Table, before).Scan(&n); err != nil {
			failures = append(failures, fmt.Errorf("dropping partitions of %s: %w", m.Table, err))
		} else if n > 0 {
			log.InfoContext(ctx, "dropped partitions", "component", "retention", "table", m.Table, "partitions", n, "before", before)
		}
	}
	for _, b := range batches() {
		failures = append(failures, b.run(ctx, s.DB, policy))
	}
	return errors.Join(append(failures, warn(ctx, s, log))...)
}

func (b batch) run(ctx context.Context, q pg.Queryer, policy policies.View) error {
	age := time.Duration(policy.Int(b.key)) * b.unit
	for {
		n, err := b.remove(ctx, q, age, batchRows)
		if err != nil || n < batchRows {
			return err
		}
	}
}

// warn logs what the metrics report: a missing or overdue partition, and a table with many dead rows.
func warn(ctx context.Context, s *services.Services, log *slog.Logger) error {
	all, err := Read(ctx, s)
	for _, t := range all {
		if t.Missing > 0 || t.Overdue > 0 || t.Bloat > bloated {
			log.WarnContext(ctx, "table needs attention", "component", "retention", "table", t.Name,
				"missing_partitions", t.Missing, "overdue_partitions", t.Overdue, "dead_rows_ratio", t.Bloat)
		}
	}
	return err
}
