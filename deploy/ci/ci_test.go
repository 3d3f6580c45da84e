package ci_test

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/gpuaas/gpuaas/deploy/ci"
	"github.com/gpuaas/gpuaas/dev/forge"
)

type job struct {
	Permissions map[string]string `yaml:"permissions"`
	Script      []string          `yaml:"script"` // GitLab
	Steps       []struct {
		Name, Run string
		With      map[string]any
		Uses      string
	}
}

// jobs reads the jobs of a file by name.
func jobs(t *testing.T, forge string) map[string]job {
	t.Helper()
	_, text, err := ci.File(forge)
	if err != nil {
		t.Fatal(err)
	}
	var whole struct {
		Jobs                    map[string]job
		Validate, Plan, Comment job
	}
	if err := yaml.Unmarshal(text, &whole); err != nil {
		t.Fatalf("%s: %v", forge, err)
	}
	if forge == "gitlab" {
		return map[string]job{"validate": whole.Validate, "plan": whole.Plan, "comment": whole.Comment}
	}
	return whole.Jobs
}

func scripts(j job) string {
	all := strings.Join(j.Script, "\n")
	for _, s := range j.Steps {
		all += "\n" + s.Run
	}
	return all
}

func TestEachForgeValidatesAndPlans(t *testing.T) {
	t.Parallel()
	for _, forge := range ci.Forges() {
		all := jobs(t, forge)
		if !strings.Contains(scripts(all["validate"]), "gpuaas validate ") || !strings.Contains(scripts(all["plan"]), "gpuaas plan ") {
			t.Errorf("%s: %+v", forge, all)
		}
		if path, _, _ := ci.File(forge); path == "" {
			t.Errorf("%s has no path", forge)
		}
	}
	if _, _, err := ci.File("bitbucket"); err == nil {
		t.Error("an unknown forge has a file")
	}
}

// TestScriptsContainNoForeignText: the text of a title or a branch must not be run.
func TestScriptsContainNoForeignText(t *testing.T) {
	t.Parallel()
	for _, forge := range ci.Forges() {
		for name, j := range jobs(t, forge) {
			if strings.Contains(scripts(j), "${{") {
				t.Errorf("%s: a script of %s contains text from outside", forge, name)
			}
			for _, s := range j.Steps {
				if strings.HasPrefix(s.Uses, "actions/checkout@") && s.With["persist-credentials"] != false {
					t.Errorf("%s: %s leaves its token in the checkout", forge, name)
				}
			}
		}
	}
}

// Threat: a secret of CI is stolen. Forges that sign tokens for jobs need none.
func TestJobsNeedNoSecret(t *testing.T) {
	t.Parallel()
	for _, forge := range []string{"github", "gitlab"} {
		_, text, err := ci.File(forge)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "GPUAAS_TOKEN") || !strings.Contains(string(text), "GPUAAS_JOB_TOKEN") {
			t.Errorf("%s uses a secret:\n%s", forge, text)
		}
	}
	if all := jobs(t, "github"); all["plan"].Permissions["id-token"] != "write" || all["validate"].Permissions["id-token"] != "" {
		t.Errorf("permissions of the jobs: %+v", all)
	}
}

// commenting is the script that comments.
func commenting(t *testing.T, forge string) string {
	t.Helper()
	all := jobs(t, forge)
	if forge == "gitlab" {
		return strings.Join(all["comment"].Script, "\n")
	}
	for _, s := range all["plan"].Steps {
		if s.Name == "Comment" {
			return s.Run
		}
	}
	t.Fatalf("%s: no step comments", forge)
	return ""
}

// TestTheCommentIsEditedInPlace runs the scripts unchanged.
func TestTheCommentIsEditedInPlace(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"sh", "curl", "jq", "git"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the scripts run %s: %v", tool, err)
		}
	}
	for _, kind := range ci.Forges() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			account := map[string]string{"github": "github-actions[bot]"}[kind]
			double, err := forge.New(t.Context(), forge.Config{Kind: kind, Dir: t.TempDir(), Project: "acme/fleet", Token: "t", Account: account})
			if err != nil {
				t.Fatal(err)
			}
			server := httptest.NewServer(double)
			t.Cleanup(server.Close)
			pull, err := double.Open(t.Context(), forge.Pull{From: "change", Into: "main", Title: "t", Author: "ada"})
			if err != nil {
				t.Fatal(err)
			}
			double.Comment(pull, "eve", "<!-- gpuaas:plan:fleet -->\nmine")

			dir, script := t.TempDir(), commenting(t, kind)
			run := func() {
				t.Helper()
				cmd := exec.CommandContext(t.Context(), "sh", "-e", "-c", script)
				cmd.Dir = dir
				cmd.Env = append(os.Environ(), "NO_PROXY=*", "GPUAAS_SOURCE=fleet", "PULL=1", "FORGE_TOKEN=t", "FORGE_PROJECT=acme/fleet",
					"FORGE_API="+server.URL+map[string]string{"github": "/api/v3/repos/acme/fleet", "gitea": "/api/v1"}[kind],
					"CI_API_V4_URL="+server.URL+"/api/v4", "CI_PROJECT_ID=acme%2Ffleet", "CI_MERGE_REQUEST_IID=1")
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
			}
			run() // without a plan there is no comment
			for _, text := range []string{"one", "two \"quoted\" `and` $(more)\n\n| a | b |\n"} {
				if err := os.WriteFile(filepath.Join(dir, "plan.md"), []byte("<!-- gpuaas:plan:fleet -->\n"+text), 0o600); err != nil {
					t.Fatal(err)
				}
				run()
			}
			all := double.Comments(pull)
			if len(all) != 2 || all[0].Edits != 0 || all[1].Edits != 1 || !strings.HasSuffix(all[1].Body, "| a | b |\n") {
				t.Errorf("%+v", all)
			}
		})
	}
}
