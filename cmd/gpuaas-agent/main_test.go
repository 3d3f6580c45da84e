package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func none(string) string { return "" }

func TestCommandLine(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	smi := write("nvidia-smi", `#!/bin/sh
[ "$1" = nvlink ] && exit 1
echo '<nvidia_smi_log><driver_version>1</driver_version><attached_gpus>0</attached_gpus></nvidia_smi_log>'
`)
	typo := write("typo.yaml", "sever: https://x\n")

	for rule, c := range map[string]struct {
		args      []string
		code      int
		out, says string
	}{
		"nothing":        {nil, 2, "", "Usage:"},
		"unknown":        {[]string{"start"}, 2, "", `no command "start"`},
		"help":           {[]string{"help"}, 0, "Usage:", ""},
		"help of run":    {[]string{"run", "-h"}, 0, "", "-token-file"},
		"version":        {[]string{"version"}, 0, "capability 5", ""},
		"unknown flag":   {[]string{"run", "--token", "secret"}, 2, "", "not defined: -token"},
		"argument":       {[]string{"run", "now"}, 2, "", `unexpected argument "now"`},
		"no server":      {[]string{"run", "--state-dir", dir}, 1, "", "server and state directory"},
		"no such CA":     {[]string{"run", "--ca-file", dir + "/absent"}, 1, "", "CA file"},
		"unknown key":    {[]string{"run", "--config", typo}, 1, "", "field sever not found"},
		"inventory":      {[]string{"inventory", "--nvidia-smi", smi}, 0, `"driver": "1"`, ""},
		"no driver":      {[]string{"inventory", "--nvidia-smi", dir + "/absent"}, 1, "", "no such file"},
		"simulated":      {[]string{"inventory", "--driver", "sim"}, 2, "", "its report"},
		"unknown driver": {[]string{"run", "--server", "https://x", "--ca-fingerprint", "00", "--driver", "amd"}, 1, "", "neither sim nor nvidia"},
	} {
		var out, errOut bytes.Buffer
		if code := command(t.Context(), c.args, &out, &errOut, none); code != c.code || !strings.Contains(out.String(), c.out) || !strings.Contains(errOut.String(), c.says) {
			t.Errorf("%s: exit %d\n%s\n%s", rule, code, &out, &errOut)
		}
	}
}

func TestFlagBeatsEnvironmentBeatsFile(t *testing.T) {
	t.Parallel()

	file := filepath.Join(t.TempDir(), "agent.yaml")
	if err := os.WriteFile(file, []byte("server: https://file\nprofile: file\nhostname: file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"GPUAAS_AGENT_CONFIG": file, "GPUAAS_AGENT_PROFILE": "environment", "GPUAAS_AGENT_HOSTNAME": "environment"}
	s, err := read("run", []string{"--hostname", "flag"}, os.Stderr, func(name string) string { return env[name] })
	if err != nil || s.Server != "https://file" || s.Profile != "environment" || s.Hostname != "flag" {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestTokenIsReadWhenNeeded(t *testing.T) {
	t.Parallel()

	file := filepath.Join(t.TempDir(), "enrolment-token")
	for rule, c := range map[string]struct {
		s   settings
		env map[string]string
	}{
		"file":       {settings{TokenFile: file}, nil},
		"variable":   {settings{}, map[string]string{"GPUAAS_ENROLMENT_TOKEN": "gpe_x"}},
		"its file":   {settings{}, map[string]string{"GPUAAS_ENROLMENT_TOKEN_FILE": file}},
		"credential": {settings{}, map[string]string{"CREDENTIALS_DIRECTORY": filepath.Dir(file)}},
	} {
		token := c.s.token(func(name string) string { return c.env[name] })
		if err := os.WriteFile(file, []byte("gpe_x\n"), 0o600); err != nil { // after it was configured
			t.Fatal(err)
		}
		if got, err := token(t.Context()); err != nil || got != "gpe_x" {
			t.Errorf("%s: %q, %v", rule, got, err)
		}
	}
	if (settings{}).token(none) != nil {
		t.Error("a token from nowhere")
	}
}
