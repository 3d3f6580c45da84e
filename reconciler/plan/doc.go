// Package plan compares what should be with what was last seen and answers with
// the actions that close the gap, each with its reason. It is pure: values in,
// values out; no clock, no database, no context.
package plan
