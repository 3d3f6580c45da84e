package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/gpuaas/gpuaas/agent"
	"github.com/gpuaas/gpuaas/agent/linux/netrules"
	"github.com/gpuaas/gpuaas/internal/durable"
	"github.com/gpuaas/gpuaas/internal/version"
)

// settings are the keys of the configuration file and the flags of the same names. They contain no
// secret, because every local user can read a command line.
type settings struct {
	Server        string `yaml:"server,omitempty"`
	StateDir      string `yaml:"state_dir,omitempty"`
	TokenFile     string `yaml:"token_file,omitempty"`
	CAFile        string `yaml:"ca_file,omitempty"`
	CAFingerprint string `yaml:"ca_fingerprint,omitempty"`
	Driver        string `yaml:"driver,omitempty"`
	Profile       string `yaml:"profile,omitempty"`
	SMI           string `yaml:"nvidia_smi,omitempty"`
	Hostname      string `yaml:"hostname,omitempty"`
	RunDir        string `yaml:"run_dir,omitempty"`
	Metrics       string `yaml:"metrics,omitempty"`
	Scrub         string `yaml:"scrub,omitempty"`
	Deny          string `yaml:"deny,omitempty"`
	Allow         string `yaml:"allow,omitempty"`
}

// usageError is a mistake of the caller.
type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

// prefix of the environment's names: GPUAAS_AGENT_SERVER is --server.
const prefix = "GPUAAS_AGENT_"

// read reads each setting from its flag, the environment, the file, or its default, in this
// sequence.
func read(name string, args []string, errOut io.Writer, env func(string) string) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("gpuaas-agent "+name, flag.ContinueOnError)
	flags.SetOutput(errOut)
	file := flags.String("config", configFile(name, env), "configuration file (YAML), the keys are the flags' names with _ for -")
	values := map[string]*string{}
	for _, f := range []struct {
		name, usage string
		into        *string
	}{
		{"server", "address of the node API, https://host:port", &s.Server},
		{"state-dir", "directory of identity and journal (default /var/lib/gpuaas)", &s.StateDir},
		{"token-file", "file with the enrolment token; or GPUAAS_ENROLMENT_TOKEN", &s.TokenFile},
		{"ca-file", "certificate authority to trust at enrolment, PEM", &s.CAFile},
		{"ca-fingerprint", "SHA-256 of its root certificates instead, hex, separated by commas", &s.CAFingerprint},
		{"driver", "nvidia or sim (default nvidia)", &s.Driver},
		{"profile", "hardware profile of a simulated node", &s.Profile},
		{"nvidia-smi", "absolute path of nvidia-smi", &s.SMI},
		{"hostname", "name to enrol with (default: the host name)", &s.Hostname},
		{"run-dir", "directory of the helper's socket (default /run/gpuaas-agent)", &s.RunDir},
		{"metrics", "loopback address for Prometheus, such as 127.0.0.1:9464 (default none)", &s.Metrics},
		{"scrub", "absolute path of the program that overwrites a GPU's memory", &s.Scrub},
		{"deny", "networks that tenants must not reach, separated by commas", &s.Deny},
		{"allow", "closed networks and address:port that tenants may reach, separated by commas", &s.Allow},
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
	if err := s.load(*file); err != nil && (name != "install" || !errors.Is(err, fs.ErrNotExist)) {
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

// defaultFile is the configuration file that install writes.
const defaultFile = "/etc/gpuaas/agent.yaml"

// configFile returns the default configuration file. A simulated node has none.
func configFile(command string, env func(string) string) string {
	if file := env(prefix + "CONFIG"); file != "" || command == "run" || command == "inventory" {
		return file
	}
	return defaultFile
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

// save writes the configuration. A token is never part of it.
func (s settings) save() (changed bool, err error) {
	s.TokenFile = ""
	text, err := yaml.Marshal(s)
	if err != nil {
		return false, fmt.Errorf("encoding configuration: %w", err)
	}
	text = append([]byte("# Written by gpuaas-agent install. See docs/reference/configuration.md.\n"), text...)
	if have, err := os.ReadFile(defaultFile); err == nil && bytes.Equal(have, text) {
		return false, nil
	}
	if err := os.MkdirAll(filepath.Dir(defaultFile), 0o755); err != nil { //nolint:gosec // daemons of other users read below /etc
		return false, fmt.Errorf("saving configuration: %w", err)
	}
	return true, durable.Write(defaultFile, text, 0o644)
}

func (s *settings) complete() error {
	if s.Driver == "" {
		s.Driver = agent.DriverNVIDIA
	}
	if s.StateDir == "" {
		s.StateDir = agent.DefaultStateDir
	}
	if s.RunDir == "" {
		s.RunDir = agent.DefaultRunDir
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
		Metrics: s.Metrics, Scrub: s.Scrub,
	}
	if c.Deny, err = list(s.Deny, func(text string) (netip.Prefix, error) {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return network, fmt.Errorf("deny: %q is no network such as 10.0.0.0/8", text)
		}
		return network, nil
	}); err != nil {
		return c, err
	}
	if c.Allow, err = list(s.Allow, func(text string) (netrules.Reachable, error) {
		r, err := netrules.ParseReachable(text)
		if err != nil {
			return r, fmt.Errorf("allow: %w", err)
		}
		return r, nil
	}); err != nil {
		return c, err
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

// list parses a list with commas.
func list[T any](text string, parse func(string) (T, error)) (found []T, err error) {
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		one, err := parse(item)
		if err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	return found, nil
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
