package inspect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
)

// listing contains the flags of events.
type listing struct {
	followNew, platform bool
	since, about        string
	limit               int
}

func NewEvents(a *output.Console) *cobra.Command {
	f := listing{limit: 50}
	cmd := &cobra.Command{
		Use: "events", Short: "List or follow events", Args: cobra.NoArgs,
		Long: `Prints the newest events, oldest first. With --follow the command continues with each new
event. As json, yaml or name it prints one document per event.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return events(cmd.Context(), a, f) },
	}
	flags := cmd.Flags()
	flags.BoolVarP(&f.followNew, "follow", "f", false, "continue until Ctrl-C")
	flags.StringVar(&f.since, "since", "", "only later than this event id, or than so long ago, like 10m")
	flags.StringVar(&f.about, "for", "", "only about this allocation")
	flags.BoolVar(&f.platform, "platform", false, "of all tenants, for operators")
	flags.IntVar(&f.limit, "limit", f.limit, "at most so many from before; 0 for all")
	cmd.AddCommand(newDeadLetters(a), newRetry(a), newDiscard(a), newConsumers(a), newReplay(a))
	return cmd
}

func events(ctx context.Context, a *output.Console, f listing) error {
	c, err := client.Connect(a)
	if err != nil {
		return err
	}
	s := &selection{after: time.Time{}, limit: f.limit}
	if f.about != "" {
		found, err := c.Find(ctx, f.about)
		if err != nil {
			return err
		}
		s.about = found.Value.Id.String()
	}
	from := "0"
	if span, err := output.ParseSpan(f.since); err == nil && f.since != "" {
		s.after = a.Clock.Now().Add(-span)
	} else if f.since != "" {
		from = strings.TrimPrefix(f.since, "event/")
	}
	last, err := backlog(ctx, a, c, f, from, s)
	if err != nil || !f.followNew {
		return err
	}
	return followEvents(ctx, a, c, f, last, s)
}

// selection filters the printed events.
type selection struct {
	about string
	after time.Time
	limit int
}

func (s *selection) takes(f client.Event) bool {
	return !f.At.Before(s.after) && (s.about == "" || bytes.Contains(f.Payload, []byte(s.about)))
}

// The stream does not mark the end of the backlog. The backlog ends with the first event that is
// newer than the request, or after a moment without events. The first event may need longer,
// because the server searches for it.
const (
	pastBegins = 3 * time.Second
	pastPauses = 500 * time.Millisecond
)

var errPastEnds = errors.New("end of the stored events")

// backlog prints earlier events and returns the id of the last one.
func backlog(ctx context.Context, a *output.Console, c *client.Client, f listing, from string, s *selection) (last string, err error) {
	reading, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	asked := a.Clock.Now()
	quiet := time.AfterFunc(pastBegins+client.OneTry, func() { cancel(errPastEnds) })
	defer quiet.Stop()

	var past []client.Event
	last = from
	err = c.Stream(reading, f.params(from), func() { quiet.Reset(pastBegins) }, func(one client.Event) error {
		quiet.Reset(pastPauses)
		last = one.ID
		if s.takes(one) {
			past = append(past, one)
			if s.limit > 0 && len(past) > s.limit {
				past = past[1:]
			}
		}
		if one.At.After(asked) {
			return errPastEnds
		}
		return nil
	})
	if ctx.Err() != nil {
		return last, ctx.Err()
	}
	if !errors.Is(err, errPastEnds) && !errors.Is(err, io.EOF) && !errors.Is(context.Cause(reading), errPastEnds) {
		return last, err
	}
	for i, one := range past {
		if err := printEvent(a, one, i == 0); err != nil {
			return last, err
		}
	}
	return last, nil
}

// followEvents reconnects with the last id, so that nothing is left out.
func followEvents(ctx context.Context, a *output.Console, c *client.Client, f listing, last string, s *selection) error {
	for {
		err := c.Stream(ctx, f.params(last), func() {}, func(one client.Event) error {
			last = one.ID
			if !s.takes(one) {
				return nil
			}
			return printEvent(a, one, false)
		})
		var known *output.CommandError
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &known) && known.Exit != output.ExitFailure:
			return err // signed out, denied: another try would hear the same
		}
		a.Notify("%s the stream ended; connecting again", output.SymbolWarn)
		if err := client.Sleep(ctx, 2*time.Second); err != nil {
			return err
		}
	}
}

func (f listing) params(last string) oapi.ListEventsParams {
	p := oapi.ListEventsParams{Since: &last}
	if f.platform {
		scope := oapi.ListEventsParamsScope("platform")
		p.Scope = &scope
	}
	return p
}

func printEvent(a *output.Console, f client.Event, first bool) error {
	switch a.Format() {
	case "json": // one line each, so that a program can read while they are sent
		var b bytes.Buffer
		if err := json.Compact(&b, f.Raw); err != nil {
			return fmt.Errorf("encoding event: %w", err)
		}
		b.WriteByte('\n')
		_, err := a.Out.Write(b.Bytes())
		return err
	case "yaml":
		if _, err := fmt.Fprintln(a.Out, "---"); err != nil {
			return err
		}
		return a.Show(f.Raw, output.Table{})
	case "name":
		return a.Show(f.Raw, output.Table{Names: []string{"event/" + f.ID}})
	}
	layout := "%-20s  %-34s  %-47s  %s\n"
	if first && !a.NoHeaders {
		_, _ = fmt.Fprintf(a.Out, layout, "AT", "EVENT", "ABOUT", "CORRELATION")
	}
	_, err := fmt.Fprintf(a.Out, layout, output.FormatTime(f.At), f.Type, Subject(f), output.OrDash(f.CorrelationID))
	return err
}

// Subject returns the resource of an event: its name, or the end of its URN.
func Subject(f client.Event) string {
	var p struct {
		URN  string `json:"urn"`
		Name string `json:"name"`
	}
	if json.Unmarshal(f.Payload, &p) != nil {
		return "-"
	}
	parts := strings.Split(p.URN, ":")
	if len(parts) < 2 {
		return output.OrDash(p.Name)
	}
	kind, id := parts[len(parts)-2], parts[len(parts)-1]
	if p.Name != "" {
		id = p.Name
	}
	return kind + "/" + id
}
