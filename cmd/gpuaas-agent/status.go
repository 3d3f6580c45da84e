package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/agent"
	"github.com/gpuaas/gpuaas/agent/runner"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/protocol"
)

// statusSocket is the network process's socket for local status requests.
const statusSocket = "/run/gpuaas-agent-net/status.sock"

// askWithin leaves the helper its time to check the host OS.
const askWithin = 30 * time.Second

// get sends one request to the network process.
func get(ctx context.Context, socket, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	c := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://agent"+path, nil)
	if err != nil {
		return fmt.Errorf("asking the agent: %w", err)
	}
	response, err := c.Do(request)
	if err != nil {
		return fmt.Errorf("the agent is not reachable (run as root: systemctl status gpuaas-agent): %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, 8<<20))
	if err != nil {
		return fmt.Errorf("reading the response of the agent: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return errors.New(strings.TrimSpace(string(text)))
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("reading the response of the agent: %w", err)
	}
	return nil
}

// output reads the flag -o, which all read-only commands have.
func (p process) output() (asJSON bool, socket string, err error) {
	flags := p.flags()
	o := flags.String("o", "text", "text or json")
	s := flags.String("socket", statusSocket, "socket of the agent")
	if err := p.parse(flags); err != nil {
		return false, "", err
	}
	if *o != "text" && *o != "json" {
		return false, "", &usageError{fmt.Errorf("-o %s: want text or json", *o)}
	}
	return *o == "json", *s, nil
}

func status(ctx context.Context, p process) error {
	asJSON, socket, err := p.output()
	if err != nil {
		return err
	}
	var st agent.Status
	if err := get(ctx, socket, agent.PathStatus, &st); err != nil {
		return err
	}
	if asJSON {
		return printJSON(p.out, st)
	}
	wrong := writeStatus(p.out, st, clock.Clock{}.Now())
	if len(wrong) == 0 {
		fmt.Fprintln(p.out, "\nNothing is wrong.")
		return nil
	}
	fmt.Fprintln(p.out, "\nWrong:")
	for _, w := range wrong {
		fmt.Fprintln(p.out, "  "+w)
	}
	return nil
}

// writeStatus prints the status and returns the problems with their remedies.
func writeStatus(w io.Writer, st agent.Status, now time.Time) (wrong []string) {
	row := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-14s"+format+"\n", append([]any{name}, args...)...)
	}
	row("Node", "%s", st.Node)
	row("Server", "%s", st.Server)
	row("Version", "%s", st.Version)
	row("Certificate", "until %s (%s)", st.CertificateUntil.Format(time.RFC3339), left(st.CertificateUntil.Sub(now)))
	row("Last report", "%s", since(st.ReportedAt, now))
	if !st.CertificateUntil.After(now) {
		wrong = append(wrong, "The certificate has expired: create a token with gpuaas node re-enrol, and run gpuaas-agent install again.")
	}
	switch {
	case st.ReportError != "":
		wrong = append(wrong, "The last report was not accepted: "+st.ReportError)
	case st.ReportedAt.IsZero():
		wrong = append(wrong, "No report was accepted since the agent started: is "+st.Server+" reached from here?")
	case now.Sub(st.ReportedAt) > lateReport:
		wrong = append(wrong, "The last report is old: is "+st.Server+" reached from here?")
	}
	if st.Helper == nil {
		row("Helper", "not reached")
		return append(wrong, "The helper is not reachable, so no task is executed: see systemctl status gpuaas-agent-helper.")
	}
	row("Helper", "reached, version %s", st.Helper.Version)
	if !st.Helper.Journal {
		wrong = append(wrong, "The journal is lost, so tasks are rejected: create a token with gpuaas node re-enrol, and run gpuaas-agent install again.")
	}
	if st.Report == nil {
		return wrong
	}
	for _, m := range st.Report.Missing {
		wrong = append(wrong, "Not read: "+m)
	}
	for _, f := range st.Report.Foreign {
		wrong = append(wrong, "In use by an unknown process: "+f)
	}
	return append(wrong, writeReport(w, st.Report)...)
}

// lateReport is several of the usual periods.
const lateReport = time.Minute

func writeReport(w io.Writer, r *protocol.Report) (wrong []string) {
	fmt.Fprintf(w, "\n%d allocations\n", len(r.Allocations))
	for _, a := range r.Allocations {
		fmt.Fprintf(w, "  %s  %-8s fence %d  %s\n", a.Allocation, a.Phase, a.Fence, a.Step)
		if a.Phase == protocol.Broken {
			wrong = append(wrong, fmt.Sprintf("Allocation %s is not as ordered: %s. The control plane repairs it; see gpuaas-agent plan.", a.Allocation, a.Message))
		}
	}
	fmt.Fprintf(w, "\n%d GPUs\n", len(r.Inventory.GPUs))
	for _, g := range r.Inventory.GPUs {
		fmt.Fprintf(w, "  %d  %s  %-24s %s\n", g.Index, g.UUID, g.Model, g.Health)
		if g.Health != protocol.Healthy {
			wrong = append(wrong, fmt.Sprintf("GPU %d is %s: %s. See gpuaas describe node, and the runbook of the code.", g.Index, g.Health, strings.Join(g.Reasons, ", ")))
		}
	}
	return wrong
}

func since(at, now time.Time) string {
	if at.IsZero() {
		return "never"
	}
	return now.Sub(at).Round(time.Second).String() + " ago"
}

func left(d time.Duration) string {
	if d <= 0 {
		return "expired"
	}
	return d.Round(time.Minute).String() + " left"
}

func plan(ctx context.Context, p process) error {
	asJSON, socket, err := p.output()
	if err != nil {
		return err
	}
	var plans []runner.Plan
	if err := get(ctx, socket, agent.PathPlan, &plans); err != nil {
		return err
	}
	if asJSON {
		return printJSON(p.out, plans)
	}
	if len(plans) == 0 {
		fmt.Fprintln(p.out, "This node has no allocation.")
	}
	for _, plan := range plans {
		would := "nothing would be changed"
		if plan.Changes() {
			would = "would be changed"
		}
		fmt.Fprintf(p.out, "%s  %s at fence %d: %s\n", plan.Allocation, plan.Type, plan.Fence, would)
		for _, s := range plan.Steps {
			fmt.Fprintf(p.out, "  %-16s %s\n", s.Name, stepWords(s))
		}
	}
	return nil
}

func stepWords(s runner.PlannedStep) string {
	switch {
	case s.Why != "":
		return "would fail: " + s.Why
	case s.Change:
		return "would change"
	}
	return "in place"
}
