package response

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/internal/clock"
)

// CSVStream replaces the generated response, which would need memory for the whole table.
type CSVStream func(http.ResponseWriter) error

// Exports streams tables as CSV.
type Exports struct {
	Log   *slog.Logger
	Clock clock.Clock
}

// WriteTimeout limits the time of a response. An export extends it while the client reads.
const WriteTimeout = 60 * time.Second

// CSV responds with a table of any length. The caller has found the errors before the first byte. An
// error after it breaks the stream off, so that the client receives a body without an end.
func (s Exports) CSV(ctx context.Context, file string, header []string, rows func(out func(line ...string) error) error) CSVStream {
	return func(w http.ResponseWriter) error {
		h := w.Header()
		h.Set("Content-Type", "text/csv; charset=utf-8; header=present")
		h.Set("Content-Disposition", `attachment; filename="`+file+`"`)
		out := csv.NewWriter(w)
		n := 0
		err := out.Write(header)
		if err == nil {
			err = rows(func(line ...string) error {
				if n++; n%exportBeat == 0 {
					if err := s.beat(w, out); err != nil {
						return err
					}
				}
				return out.Write(line)
			})
		}
		out.Flush()
		err = cmp.Or(err, out.Error())
		if err != nil {
			s.Log.WarnContext(ctx, "an export broke off", "file", file, "rows", n, "err", err)
			panic(http.ErrAbortHandler) // the only sign for a client that has received status 200
		}
		return nil
	}
}

// exportBeat is the number of rows between two extensions of the deadline.
const exportBeat = 1000

// beat sends the buffered rows and extends the deadline, because a long export needs more time than a
// response may. A client that reads nothing still runs into the deadline.
func (s Exports) beat(w http.ResponseWriter, out *csv.Writer) error {
	if err := s.Extend(w); err != nil {
		return err
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return err
	}
	if err := http.NewResponseController(w).Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// Extend extends the deadline of a response.
func (s Exports) Extend(w http.ResponseWriter) error {
	err := http.NewResponseController(w).SetWriteDeadline(s.Clock.Now().Add(WriteTimeout))
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}

// SafeCell quotes a text that a spreadsheet would read as a formula.
func SafeCell(cell string) string {
	if cell != "" && strings.IndexByte("=+-@\t\r\n", cell[0]) >= 0 {
		return "'" + cell
	}
	return cell
}

// VisitExportAuditLogsResponse writes the rows as they are read.
func (write CSVStream) VisitExportAuditLogsResponse(w http.ResponseWriter) error { return write(w) }

// VisitExportAdminAuditLogsResponse writes the rows as they are read.
func (write CSVStream) VisitExportAdminAuditLogsResponse(w http.ResponseWriter) error {
	return write(w)
}

// VisitExportLedgerResponse writes the rows as they are read.
func (write CSVStream) VisitExportLedgerResponse(w http.ResponseWriter) error { return write(w) }

// VisitExportStatementResponse writes the rows.
func (write CSVStream) VisitExportStatementResponse(w http.ResponseWriter) error { return write(w) }

// VisitExportUsageResponse writes the rows as they are read.
func (write CSVStream) VisitExportUsageResponse(w http.ResponseWriter) error { return write(w) }

// VisitExportAdminAllocationsResponse writes the rows as they are read.
func (write CSVStream) VisitExportAdminAllocationsResponse(w http.ResponseWriter) error {
	return write(w)
}

// Connection writes the headers of a response, and returns the writer of net/http, which can send files without copying them.
func Connection(w http.ResponseWriter) http.ResponseWriter {
	if pending, ok := w.(interface{ WriteHeaderNow() }); ok {
		pending.WriteHeaderNow()
	}
	for {
		inner, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return w
		}
		w = inner.Unwrap()
	}
}
