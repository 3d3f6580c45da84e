package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

func newDoctor(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "Check this machine, the profile and the installation", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.doctor(cmd.Context()) },
	}
}

// examination is one line of doctor: what was looked at, how it is, what to do.
type examination struct {
	Name    string `json:"name"`
	Status  string `json:"status"` // ok, warn, fail
	Message string `json:"message"`
	Try     string `json:"try,omitempty"`
}

const (
	statusOK   = "ok"
	statusWarn = "warn"
	statusFail = "fail"
)

func (a *app) doctor(ctx context.Context) error {
	all := a.examineMachine(ctx)
	profiles, usable := a.examineProfile(ctx)
	all = append(all, profiles...)
	reachable := false
	if usable {
		var of []examination
		of, reachable = a.examineServer(ctx)
		all = append(all, of...)
	}
	all = append(all, a.examineDataDir(reachable)...)

	failed := 0
	for _, e := range all {
		if e.Status == statusFail {
			failed++
		}
	}
	if err := a.showExaminations(all); err != nil {
		return err
	}
	if failed == 0 {
		return nil
	}
	return &failure{
		Message: count(failed, "check") + " failed", Code: codeFindings, Try: "do what stands behind the first of them",
		Correlation: a.Correlation, Exit: exitFailure,
	}
}

func (a *app) showExaminations(all []examination) error {
	if a.data() {
		document, err := encode(map[string]any{"checks": all})
		if err != nil {
			return err
		}
		return a.show(document, table{})
	}
	t := table{}
	symbols := map[string]string{statusOK: symbolGood, statusWarn: symbolWarn, statusFail: symbolBad}
	var b strings.Builder
	for _, e := range all {
		t.names = append(t.names, "check/"+e.Name)
		// Padded before it is painted: escape codes would count as width.
		fmt.Fprintf(&b, "%s %-18s %s\n", a.paint(fmt.Sprintf("%s %-5s", symbols[e.Status], e.Status)), e.Name, e.Message)
		if e.Try != "" {
			fmt.Fprintf(&b, "%27s→ %s\n", "", e.Try)
		}
	}
	if a.format() == "name" {
		return a.show(nil, t)
	}
	_, err := fmt.Fprint(a.Out, b.String())
	return err
}
