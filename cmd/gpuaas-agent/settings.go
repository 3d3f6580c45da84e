package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/gpuaas/gpuaas/agent"
	"github.com/gpuaas/gpuaas/internal/version"
)

// settings are the keys of the configuration file, and the flags of the same
// names. No secret is among them: a command line is read by every user of a host.
type settings struct {
	Server        string `yaml:"server"`
	StateDir      string `yaml:"state_dir"`
	TokenFile     string `yaml:"token_file"`
	CAFile        string `yaml:"ca_file"`
	CAFingerprint string `yaml:"ca_fingerprint"`
	Driver        string `yaml:"driver"`
	Profile       string `yaml:"profile"`
	SMI           string `yaml:"nvidia_smi"`
	Hostname      string `yaml:"hostname"`
}

// usageError is a mistake of the caller.
type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

// prefix of the environment's names: GPUAAS_AGENT_SERVER is --server.
const prefix = "GPUAAS_AGENT_"

// read takes each setting from its flag, else the environment, else the file,
// else its default.
func read(name string, args []string, errOut io.Writer, env func(string) string) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("gpuaas-agent "+name, flag.ContinueOnError)
	flags.SetOutput(errOut)
	file := flags.String("config", env(prefix+"CONFIG"), "configuration file (YAML), the keys are the flags' names with _ for -")
	values := map[string]*string{}
	for _, f := range []struct {
		name, usage string
		into        *string
	}{
		{"server", "address of the node door, https://host:port", &s.Server},
		{"state-dir", "directory of identity and journal (default /var/lib/gpuaas)", &s.StateDir},
		{"token-file", "file with the enrolment token; or GPUAAS_ENROLMENT_TOKEN", &s.TokenFile},
		{"ca-file", "certificate authority to believe at enrolment, PEM", &s.CAFile},
		{"ca-fingerprint", "SHA-256 of its root certificate instead, hex", &s.CAFingerprint},
		{"driver", "nvidia or sim (default nvidia)", &s.Driver},
		{"profile", "hardware profile of a simulated host", &s.Profile},
		{"nvidia-smi", "absolute path of nvidia-smi", &s.SMI},
		{"hostname", "name to enrol with (default the host's)", &s.Hostname},
	} {
		values[f.name] = f.into
		flags.String(f.name, "", f.usage)
	}
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return s, err
	} else if err != nil {
		return s, &usageError{err}
	}
	if flags.NArg() > 0 {
		return s, &usageError{fmt.Errorf("unexpected argument %q", flags.Arg(0))}
	}
	if err := s.load(*file); err != nil {
		return s, err
	}
	for name, into := range values {
		if v := env(prefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))); v != "" {
			*into = v
		}
	}
	flags.Visit(func(f *flag.Flag) {
		if into, ok := values[f.Name]; ok {
			*into = f.Value.String()
		}
	})
	return s, s.complete()
}

func (s *settings) load(file string) error {
	if file == "" {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reading configuration: %w", err)
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(s); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading %s: %w", file, err)
	}
	return nil
}

func (s *settings) complete() error {
	if s.Driver == "" {
		s.Driver = agent.DriverNVIDIA
	}
	if s.StateDir == "" {
		s.StateDir = "/var/lib/gpuaas"
	}
	if s.Hostname != "" {
		return nil
	}
	var err error
	if s.Hostname, err = os.Hostname(); err != nil {
		return fmt.Errorf("reading host name: %w", err)
	}
	return nil
}

func (s settings) config(log *slog.Logger, env func(string) string) (agent.Config, error) {
	self, err := os.Executable()
	if err != nil {
		return agent.Config{}, fmt.Errorf("finding this program: %w", err)
	}
	c := agent.Config{
		Self: self, Server: s.Server, StateDir: s.StateDir, Token: s.token(env), CAFingerprint: s.CAFingerprint,
		Driver: s.Driver, Profile: s.Profile, SMI: s.SMI, Hostname: s.Hostname, Version: version.Version, Log: log,
	}
	if s.CAFile != "" {
		text, err := os.ReadFile(s.CAFile)
		if err != nil {
			return c, fmt.Errorf("reading CA file: %w", err)
		}
		c.CA = text
	}
	return c, nil
}

// token reads the enrolment token when it is needed: from the file, from systemd's
// credentials, or from the environment. It is nil when there is no such place.
func (s settings) token(env func(string) string) func(context.Context) (string, error) {
	file := s.TokenFile
	if file == "" {
		file = env("GPUAAS_ENROLMENT_TOKEN_FILE")
	}
	if dir := env("CREDENTIALS_DIRECTORY"); file == "" && dir != "" {
		file = filepath.Join(dir, "enrolment-token")
	}
	value := env("GPUAAS_ENROLMENT_TOKEN")
	if file == "" && value == "" {
		return nil
	}
	return func(context.Context) (string, error) {
		if file == "" {
			return value, nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("reading enrolment token: %w", err)
		}
		return strings.TrimSpace(string(text)), nil
	}
}
