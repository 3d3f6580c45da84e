package main

import "github.com/spf13/cobra"

func newUp() *cobra.Command {
	return &cobra.Command{Use: "up", Short: "Run everything on this machine", RunE: overview}
}

func newServer() *cobra.Command {
	return &cobra.Command{Use: "server", Short: "Run the server", RunE: overview}
}
