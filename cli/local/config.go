package local

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
)

const explainText = `Prints each setting of the client and of the server: the value in force, and its source, which is
the first of flag, environment variable, file and default. The command accepts the flags of
"gpuaas server" and prints what a server with these flags and this environment would use. It prints
no secret.

Values that differ by tenant, or change while the system runs, are policies (gpuaas policy list).`

// NewConfig returns the command group of the configuration.
func NewConfig(a *output.Console) *cobra.Command {
	var flags serverFlags
	cmd := &cobra.Command{
		Use: "explain [SETTING…]", Short: "Show settings and their sources", Long: explainText, Args: cobra.ArbitraryArgs,
		Example: "  gpuaas config explain\n  gpuaas config explain GPUAAS_URL listen\n  gpuaas config explain --listen 0.0.0.0:443 listen",
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := explained(a, cmd)
			if err != nil {
				return err
			}
			return showSettings(a, all, args)
		},
	}
	flags.add(cmd)
	return output.Group("config", "Show the configuration", cmd)
}

// explanation is one setting with its value in force.
type explanation struct {
	Setting string `json:"setting"`
	Part    string `json:"part"` // client or server
	Value   string `json:"value"`
	Source  string `json:"source"` // flag, environment, file or default
	From    string `json:"from,omitempty"`
}

func showSettings(a *output.Console, all []explanation, names []string) error {
	shown := []explanation{}
	for _, e := range all {
		if len(names) == 0 || slices.Contains(names, e.Setting) {
			shown = append(shown, e)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(all, func(e explanation) bool { return e.Setting == name }) {
			e := output.UsageError("setting %q does not exist", name)
			e.Try = "gpuaas config explain"
			return e
		}
	}
	raw, err := json.Marshal(map[string]any{"items": shown})
	if err != nil {
		return fmt.Errorf("encoding settings: %w", err)
	}
	t := output.Table{Head: []string{"SETTING", "PART", "VALUE", "SOURCE"}, Wide: []string{"FROM"}}
	for _, e := range shown {
		t.Add("setting/"+e.Setting, e.Setting, e.Part, output.OrDash(e.Value), e.Source, output.OrDash(e.From))
	}
	return a.Show(raw, t)
}

// variable is a setting that has no flag.
type variable struct {
	name      string
	secret    bool
	otherwise string // the default, as a value or a description
}

var clientVariables = []variable{
	{name: "GPUAAS_JOB_TOKEN", secret: true}, {name: "GPUAAS_SERVICE_ACCOUNT"}, {name: "BROWSER"}, {name: "GPUAAS_EXTERNAL_DIFF"}, {name: "NO_COLOR"},
}

var serverVariables = []variable{
	{name: "DATABASE_URL", secret: true},
	{name: "GPUAAS_DATABASE_URL_API", secret: true},
	{name: "GPUAAS_DATABASE_URL_NODE", secret: true},
	{name: "GPUAAS_DATABASE_URL_RECONCILE", secret: true},
	{name: "GPUAAS_DATABASE_URL_WORK", secret: true},
	{name: "GPUAAS_DATABASE_URL_RELAY", secret: true},
	{name: "NATS_URL", secret: true},
	{name: "OTEL_EXPORTER_OTLP_ENDPOINT"},
	{name: "GPUAAS_PG_BIN"},
	{name: "GPUAAS_OIDC_ISSUER_URL", otherwise: "signIn.issuer of the Environment"},
	{name: "KEYCLOAK_ISSUER_URL"},
	{name: "GPUAAS_OIDC_CLIENT_SECRET", secret: true},
	{name: "GPUAAS_GIT_TOKEN", secret: true},
	{name: "GPUAAS_GIT_SSH_KEY", secret: true},
	{name: "GPUAAS_GIT_KNOWN_HOSTS"},
	{name: "GPUAAS_CREDENTIALS"},
	{name: "GPUAAS_CREDENTIALS_DIR", otherwise: "CREDENTIALS_DIRECTORY"},
	{name: "STRIPE_SECRET_KEY", secret: true},
	{name: "STRIPE_WEBHOOK_SECRET", secret: true},
	{name: "GPUAAS_PAYMENTS_API_URL"},
	{name: "GPUAAS_CA", otherwise: "local"},
	{name: "GPUAAS_TASK_SIGNER", otherwise: "local"},
	{name: "GPUAAS_KEK", otherwise: "file"},
	{name: "GPUAAS_KEK_FILE", otherwise: "kek.json in --state-dir"},
	{name: "GPUAAS_VAULT_URL"},
	{name: "GPUAAS_VAULT_NAMESPACE"},
	{name: "GPUAAS_VAULT_CA_FILE"},
	{name: "GPUAAS_VAULT_TOKEN", secret: true},
	{name: "GPUAAS_VAULT_ROLE_ID"},
	{name: "GPUAAS_VAULT_SECRET_ID", secret: true},
	{name: "GPUAAS_VAULT_PKI", otherwise: "pki"},
	{name: "GPUAAS_VAULT_NODE_ROLE", otherwise: "gpuaas-node"},
	{name: "GPUAAS_VAULT_SERVER_ROLE", otherwise: "gpuaas-server"},
	{name: "GPUAAS_VAULT_TRANSIT", otherwise: "transit"},
	{name: "GPUAAS_VAULT_TASK_KEY", otherwise: "gpuaas-tasks"},
	{name: "GPUAAS_VAULT_KEK", otherwise: "gpuaas-kek"},
	{name: "GPUAAS_STEP_CA_URL"},
	{name: "GPUAAS_STEP_CA_ROOT_FILE"},
	{name: "GPUAAS_STEP_CA_PROVISIONER", otherwise: "gpuaas"},
	{name: "GPUAAS_STEP_CA_KEY", secret: true},
	{name: "GPUAAS_AGENT_DIR", otherwise: "the folder of the program"},
	{name: "GPUAAS_AUDIT_ARCHIVE"},
	{name: "GPUAAS_BACKUP_TARGET"},
	{name: "GPUAAS_BACKUP_KEY"},
	{name: "GPUAAS_BACKUP_IDENTITY"},
	{name: "GPUAAS_PORTAL", otherwise: "on"},
}

// serverFlagNames are the flags of the server by name.
var serverFlagNames = []string{
	"environment", "listen", "log-level", "metrics-listen", "metrics-name", "node-host", "node-listen", "pprof-listen", "public-url", "ref", "relay-advertise", "relay-listen", "repository",
	"roles", "source-name", "state-dir", "storage-domain", "storage-listen", "terminal-listen", "tls-cert", "tls-client-ca", "tls-key", "trusted-proxy",
}

// flagVariables are the variables that give flags of the server their default.
var flagVariables = map[string]string{
	"listen": "PORT", "public-url": "GPUAAS_PUBLIC_URL", "trusted-proxy": "GPUAAS_TRUSTED_PROXIES",
	"tls-cert": "GPUAAS_TLS_CERT", "tls-key": "GPUAAS_TLS_KEY", "tls-client-ca": "GPUAAS_TLS_CLIENT_CA",
}

// explained returns all settings, those of the client first.
func explained(a *output.Console, cmd *cobra.Command) ([]explanation, error) {
	all, err := connection(a, cmd)
	if err != nil {
		return nil, err
	}
	for _, v := range clientVariables {
		all = append(all, v.explain(a, "client"))
	}
	for _, flag := range serverFlagNames {
		f := cmd.Flags().Lookup(flag)
		e := explanation{Setting: f.Name, Part: "server", Value: strings.Trim(f.Value.String(), "[]"), Source: "default"}
		switch name := flagVariables[f.Name]; {
		case f.Changed:
			e.Source, e.From = "flag", "--"+f.Name
		case name != "" && a.Env(name) != "":
			e.Source, e.From = "environment", name
		}
		all = append(all, e)
	}
	for _, v := range serverVariables {
		all = append(all, v.explain(a, "server"))
	}
	return all, nil
}

func (v variable) explain(a *output.Console, part string) explanation {
	e := explanation{Setting: v.name, Part: part, Value: v.otherwise, Source: "default"}
	switch value := a.Env(v.name); {
	case value != "":
		e.Value, e.Source, e.From = value, "environment", v.name
		if v.secret {
			e.Value = redacted(value)
		}
	case v.secret && a.Env(v.name+"_FILE") != "":
		e.Value, e.Source, e.From = hidden, "file", a.Env(v.name+"_FILE")
	}
	return e
}

// hidden is the value of a secret that is set.
const hidden = "(set)"

// redacted returns an address without its password, and nothing of another secret.
func redacted(value string) string {
	if u, err := url.Parse(value); err == nil && u.Host != "" {
		u.RawQuery = ""
		return u.Redacted()
	}
	return hidden
}

// connection explains the settings of the client that a profile may contain, or a flag.
func connection(a *output.Console, cmd *cobra.Command) ([]explanation, error) {
	s, err := client.ReadSettings(a)
	if err != nil {
		return nil, err
	}
	one := func(setting, flag, value, stored, otherwise string) explanation {
		e := explanation{Setting: setting, Part: "client", Value: cmp.Or(value, otherwise), Source: "default"}
		switch {
		case flag != "" && cmd.Flags().Changed(flag):
			e.Source, e.From = "flag", "--"+flag
		case a.Env(setting) != "":
			e.Source, e.From = "environment", setting
		case value != "" && stored != "":
			e.Source, e.From = "file", stored
		}
		return e
	}
	profile := ""
	if s.Name != "" {
		profile = s.Store.Path + ", profile " + s.Name
	}
	token := one("GPUAAS_TOKEN", "", s.Token, profile, "")
	if token.Value != "" {
		token.Value = hidden
	}
	if file := a.Env("GPUAAS_TOKEN_FILE"); file != "" && token.Source != "environment" {
		token.Source, token.From = "file", file
	}
	quiet := one("GPUAAS_NO_INPUT", "no-input", a.Env("GPUAAS_NO_INPUT"), "", "false")
	if quiet.Source == "flag" {
		quiet.Value = "true"
	}
	return []explanation{
		one("GPUAAS_PROFILE", "profile", s.Name, s.Store.Path, ""), one("GPUAAS_URL", "url", s.URL, profile, ""), token,
		one("GPUAAS_PROJECT", "project", s.Project, profile, ""), one("GPUAAS_OUTPUT", "output", a.Format(), "", ""), quiet,
		one("GPUAAS_CONFIG_DIR", "", filepath.Dir(s.Store.Path), "", ""),
	}, nil
}
