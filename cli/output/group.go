package output

import (
	"github.com/spf13/cobra"
)

// Overview is the action of a command group without a known subcommand. Cobra alone would print
// help and exit with 0 for an unknown subcommand.
func Overview(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	f := UsageError("unknown command %q for %q", args[0], cmd.CommandPath())
	f.Try = cmd.CommandPath() + " --help"
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		f.Try = cmd.CommandPath() + " " + near[0]
	}
	return f
}

// Group makes a command that only contains other commands.
func Group(use, short string, commands ...*cobra.Command) *cobra.Command {
	g := &cobra.Command{Use: use, Short: short, Args: cobra.ArbitraryArgs, RunE: Overview, SuggestionsMinimumDistance: 2}
	g.AddCommand(commands...)
	return g
}
