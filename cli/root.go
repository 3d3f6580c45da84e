// Package cli is the command line: the root command with the groups of its subpackages. A command decodes
// its flags, calls the API through client, and prints through output.
package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/cli/access"
	"github.com/gpuaas/gpuaas/cli/alloc"
	"github.com/gpuaas/gpuaas/cli/backup"
	"github.com/gpuaas/gpuaas/cli/change"
	"github.com/gpuaas/gpuaas/cli/evidence"
	"github.com/gpuaas/gpuaas/cli/fleet"
	"github.com/gpuaas/gpuaas/cli/inspect"
	"github.com/gpuaas/gpuaas/cli/local"
	"github.com/gpuaas/gpuaas/cli/money"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/cli/people"
	"github.com/gpuaas/gpuaas/cli/release"
	"github.com/gpuaas/gpuaas/cli/restore"
	"github.com/gpuaas/gpuaas/cli/storage"
	"github.com/gpuaas/gpuaas/cli/support"
)

// execute runs one command line and returns its exit code.
func execute(ctx context.Context, a *output.Console, args []string) int {
	root := newRoot(a) //nolint:contextcheck // commands take theirs from cobra, when they run
	root.SetArgs(args)
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return output.ExitOK
	}
	f := a.Explain(ctx, err)
	if f.Silent {
		return f.Exit
	}
	f.Print(a.Err)
	// Here 2 is an answer, so no failure may end with it.
	if f.Exit == output.ExitUsage && slices.Contains(args, "--"+change.DetailedExit) {
		return output.ExitFailure
	}
	return f.Exit
}

const (
	groupCompute        = "compute"
	groupBilling        = "billing"
	groupAuthentication = "authentication"
	groupIdentity       = "identity"
	groupInspect        = "inspect"
	groupDesired        = "desired"
	groupFleet          = "fleet"
	groupServer         = "server"
)

func newRoot(a *output.Console) *cobra.Command {
	root := &cobra.Command{
		Use:   "gpuaas",
		Short: "Manage GPU allocations, the fleet and billing",
		Long: `gpuaas runs GPUaaS on the local machine (up, server) and sends requests to an installation.

The address of the installation is the first of these: flag, environment (GPUAAS_URL,
GPUAAS_TOKEN, GPUAAS_PROFILE, GPUAAS_PROJECT), profile. "gpuaas up" writes a profile. Results go
to stdout, everything else to stderr. "gpuaas help exit-codes" lists the exit codes.`,
		Version:       local.Build(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs, // so that an unknown command gets our error
		RunE:          output.Overview,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.CheckOutput(cmd); err != nil {
				return err
			}
			a.Started = true
			return nil
		},
	}
	root.SetVersionTemplate("{{.Version}}\n")
	a.SignInAgain = func(ctx context.Context) error { return people.SignInAgain(ctx, a) }
	root.AddGroup(
		&cobra.Group{ID: groupCompute, Title: "Compute:"},
		&cobra.Group{ID: groupBilling, Title: "Billing:"},
		&cobra.Group{ID: groupAuthentication, Title: "Authentication:"},
		&cobra.Group{ID: groupIdentity, Title: "Identity and access:"},
		&cobra.Group{ID: groupInspect, Title: "Inspect:"},
		&cobra.Group{ID: groupDesired, Title: "Desired state:"},
		&cobra.Group{ID: groupFleet, Title: "Fleet:"},
		&cobra.Group{ID: groupServer, Title: "Server and development:"},
	)
	flags := root.PersistentFlags()
	flags.StringVar(&a.Profile, "profile", "", "profile to use (GPUAAS_PROFILE)")
	flags.StringVar(&a.Url, "url", "", "address of the installation (GPUAAS_URL)")
	flags.StringVar(&a.Project, "project", "", "project, by name or id (GPUAAS_PROJECT)")
	flags.StringVarP(&a.Output, "output", "o", "", "output: "+strings.Join(output.Outputs(), ", ")+" (GPUAAS_OUTPUT)")
	flags.BoolVar(&a.NoHeaders, "no-headers", false, "tables without their first line")
	flags.BoolVar(&a.NoInput, "no-input", false, "never prompt (GPUAAS_NO_INPUT)")
	_ = root.RegisterFlagCompletionFunc("output", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return append(output.Outputs(), strings.FieldsFunc(cmd.Annotations[output.MoreOutputs], func(r rune) bool { return r == ',' })...), cobra.ShellCompDirectiveNoFileComp
	})

	in := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	in(groupCompute, alloc.NewAlloc(a, access.NewAllocationLogs(a)), access.NewSSH(a), access.NewTerminal(a), access.NewSCP(a), access.NewPortForward(a), access.NewOpen(a), access.NewSSHConfig(a), access.NewSessions(a), access.NewRecordings(a), storage.NewStorage(a), alloc.NewKeys(a, fleet.NewKeysRotate(a), fleet.NewCreateKEK(a)))
	in(groupBilling, money.NewBalance(a), money.NewUsage(a), money.NewLedger(a), money.NewStatement(a), money.NewPayment(a), money.NewRefund(a))
	in(groupAuthentication, people.NewLogin(a), people.NewLogout(a), people.NewWhoami(a), people.NewSession(a))
	in(groupIdentity, people.NewTenant(a), people.NewInvitation(a), people.NewProject(a), people.NewServiceAccount(a), people.NewAPIKey(a), people.NewAudit(a),
		people.NewAdmin(a, append(money.NewAdminBilling(a), alloc.NewAdminAlloc(a), alloc.NewAdminFaults(a), access.NewAdminSessions(a), fleet.NewOverview(a))...))
	in(groupInspect, inspect.NewGet(a), inspect.NewDescribe(a), inspect.NewWait(a), inspect.NewEvents(a), inspect.NewNotifications(a), inspect.NewWebhook(a), inspect.NewDrift(a), inspect.NewTrace(a), evidence.NewEvidence(a))
	in(groupDesired, change.NewValidate(a), change.NewEnv(a), change.NewDiff(a), change.NewPlan(a), change.NewApply(a), change.NewApprove(a), change.NewReject(a),
		change.NewRollback(a), change.NewExport(a), change.NewAdopt(a), change.NewSuspend(a), change.NewResume(a), inspect.NewReconcile(a), change.NewPut(a),
		change.NewDelete(a), change.NewPolicy(a), local.NewInit(a))
	in(groupFleet, fleet.NewNode(a, access.NewNodeLogs(a)), fleet.NewCA(a), fleet.NewAgent(a))
	in(groupServer, local.NewUp(), local.NewServer(), local.NewFirstAdmin(a), local.NewDoctor(a), support.NewSupportBundle(a), backup.NewBackup(a), restore.NewRestore(a), local.NewDev(a), local.NewTour(a), local.NewConfig(a), release.NewRelease(a), local.NewVersion(a))
	root.SetCompletionCommandGroupID(groupServer)
	root.SetHelpCommandGroupID(groupServer)
	root.AddCommand(output.NewExitCodes())
	ownShorts(root)
	return root
}

// ownShorts gives the commands that Cobra adds a short text in the form of the others.
func ownShorts(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Short = "Show help for a command"
		case "completion":
			c.Short = "Generate a shell completion script"
		}
	}
}
