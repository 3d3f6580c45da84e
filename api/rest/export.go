package rest

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"net/http"
	"strings"
)

// csvStream takes the place of the generated response, which would hold all of it.
type csvStream func(http.ResponseWriter) error

// table is what an export consists of. rows hands out one line after the other;
// texts that people have chosen are inert in them.
type table struct {
	file   string
	header []string
	rows   func(out func(line ...string) error) error
}

// csv is an answer of any length. What is wrong before its first byte, the caller
// has found; what breaks later breaks the stream off, which a client sees as a body
// without its end.
func (s *Server) csv(ctx context.Context, t table) csvStream {
	return func(w http.ResponseWriter) error {
		h := w.Header()
		h.Set("Content-Type", "text/csv; charset=utf-8; header=present")
		h.Set("Content-Disposition", `attachment; filename="`+t.file+`"`)
		out := csv.NewWriter(w)
		n := 0
		err := out.Write(t.header)
		if err == nil {
			err = t.rows(func(line ...string) error {
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
			s.Log.WarnContext(ctx, "an export broke off", "file", t.file, "rows", n, "err", err)
			panic(http.ErrAbortHandler) // the only way to tell a client that has had 200
		}
		return nil
	}
}

// exportBeat is how many rows go out between two extensions of the deadline.
const exportBeat = 1000

// beat sends what is there, and gives the rest as much time again: a long export
// outlasts what an answer may take, and a client that takes nothing does not.
func (s *Server) beat(w http.ResponseWriter, out *csv.Writer) error {
	control := http.NewResponseController(w)
	if err := control.SetWriteDeadline(s.Clock.Now().Add(writeTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return err
	}
	if err := control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// inert keeps a spreadsheet from taking a text for a formula.
func inert(cell string) string {
	if cell != "" && strings.IndexByte("=+-@\t\r\n", cell[0]) >= 0 {
		return "'" + cell
	}
	return cell
}
