package main

import (
	"context"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/gpuaas/gpuaas/internal/clock"
)

// app is what commands share: the world they run in, and the flags that every
// one of them takes.
type app struct {
	In       io.Reader
	Out, Err io.Writer
	Env      func(string) string
	Clock    clock.Clock
	// Terminal says that a person sits at In. Colours asks for escape codes on Out.
	Terminal, Colours bool
	// Correlation is one id for all requests of this run, so that it can be named
	// even when no answer came.
	Correlation string

	profile, url, project, output string
	noHeaders, noInput            bool

	// started is set once flags and arguments were understood. An error before
	// that is a usage error, whichever words cobra finds for it.
	started bool
}

func newApp() *app {
	return &app{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Getenv,
		Terminal:    term.IsTerminal(int(os.Stdin.Fd())),
		Colours:     term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb",
		Correlation: uuid.Must(uuid.NewV7()).String(),
	}
}

// execute runs one command line and returns its exit code.
func (a *app) execute(ctx context.Context, args []string) int {
	root := newRoot(a) //nolint:contextcheck // commands take theirs from cobra, when they run
	root.SetArgs(args)
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	f := a.explain(ctx, err)
	if f.Silent {
		return f.Exit
	}
	f.print(a.Err)
	// Here 2 is an answer, so no failure may end with it.
	if f.Exit == exitUsage && slices.Contains(args, "--"+detailedExit) {
		return exitFailure
	}
	return f.Exit
}

// canAsk says whether a question would find somebody to answer it.
func (a *app) canAsk() bool {
	return a.Terminal && !a.noInput && a.Env("GPUAAS_NO_INPUT") == "" && a.Env("CI") == ""
}

const (
	groupTenant   = "tenant"
	groupMoney    = "money"
	groupAccount  = "account"
	groupPeople   = "people"
	groupOperator = "operator"
	groupChange   = "change"
	groupHouse    = "house"
)

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "gpuaas",
		Short: "GPUs by the hour, declared, reconciled and billed",
		Long: `gpuaas runs GPUaaS on this machine (up, server) and talks to an installation.

It finds the installation in this order: flag, environment (GPUAAS_URL, GPUAAS_TOKEN,
GPUAAS_PROFILE, GPUAAS_PROJECT), profile. "gpuaas up" writes a profile. Results go to
stdout, everything else to stderr; "gpuaas help exit-codes" lists the exit codes.`,
		Version:       build(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs, // so that an unknown word gets our error
		RunE:          overview,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.checkOutput(cmd); err != nil {
				return err
			}
			a.started = true
			return nil
		},
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.AddGroup(
		&cobra.Group{ID: groupTenant, Title: "GPUs:"},
		&cobra.Group{ID: groupMoney, Title: "Money:"},
		&cobra.Group{ID: groupAccount, Title: "Come and go:"},
		&cobra.Group{ID: groupPeople, Title: "People, projects and keys:"},
		&cobra.Group{ID: groupOperator, Title: "Look and understand:"},
		&cobra.Group{ID: groupChange, Title: "Change what is declared:"},
		&cobra.Group{ID: groupHouse, Title: "Run and care:"},
	)
	flags := root.PersistentFlags()
	flags.StringVar(&a.profile, "profile", "", "profile to use (GPUAAS_PROFILE)")
	flags.StringVar(&a.url, "url", "", "address of the installation (GPUAAS_URL)")
	flags.StringVar(&a.project, "project", "", "project, by name or id (GPUAAS_PROJECT)")
	flags.StringVarP(&a.output, "output", "o", "", "output: "+strings.Join(outputs(), ", ")+" (GPUAAS_OUTPUT)")
	flags.BoolVar(&a.noHeaders, "no-headers", false, "tables without their first line")
	flags.BoolVar(&a.noInput, "no-input", false, "never ask (GPUAAS_NO_INPUT)")
	_ = root.RegisterFlagCompletionFunc("output", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return append(outputs(), strings.FieldsFunc(cmd.Annotations[moreOutputs], func(r rune) bool { return r == ',' })...), cobra.ShellCompDirectiveNoFileComp
	})

	in := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	in(groupTenant, newAlloc(a), newSSH(a), newKeys(a))
	in(groupMoney, newBalance(a), newUsage(a), newLedger(a), newStatement(a), newPayment(a), newRefund(a))
	in(groupAccount, newLogin(a), newLogout(a), newWhoami(a))
	in(groupPeople, newTenant(a), newProject(a), newServiceAccount(a), newAPIKey(a), newSession(a), newAudit(a), newAdmin(a))
	in(groupOperator, newGet(a), newDescribe(a), newWait(a), newEvents(a), newDrift(a), newTrace(a), newPolicy(a))
	in(groupChange, newValidate(a), newEnv(a), newDiff(a), newPlan(a), newApply(a), newApprove(a), newReject(a), newRollback(a), newExport(a), newAdopt(a),
		newNode(a), newSuspend(a), newResume(a), newReconcile(a), newPut(a), newDelete(a))
	in(groupHouse, newUp(), newServer(), newInit(a), newFirstAdmin(a), newCA(a), newAgent(a), newDoctor(a), newDev(a), newTour(a), newVersion(a))
	root.SetCompletionCommandGroupID(groupHouse)
	root.SetHelpCommandGroupID(groupHouse)
	root.AddCommand(newExitCodes())
	return root
}

// overview is what a group of commands does without a word that it knows. Cobra
// alone would print help and call an unknown word a success.
func overview(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	f := usage("unknown command %q for %q", args[0], cmd.CommandPath())
	f.Try = cmd.CommandPath() + " --help"
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		f.Try = cmd.CommandPath() + " " + near[0]
	}
	return f
}

// group makes a command that only holds others.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	g := &cobra.Command{Use: use, Short: short, Args: cobra.ArbitraryArgs, RunE: overview, SuggestionsMinimumDistance: 2}
	g.AddCommand(commands...)
	return g
}
