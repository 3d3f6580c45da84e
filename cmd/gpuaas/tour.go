package main

import "github.com/spf13/cobra"

func newTour(a *app) *cobra.Command { return &cobra.Command{Use: "tour", RunE: overview} }
