// Package alerts contains the alerting rules of Prometheus.
package alerts

import (
	_ "embed" // the rules
	"fmt"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"
)

//go:embed gpuaas.rules.yaml
var rules []byte

// Rule is an alert. Runbook is the name of its page.
type Rule struct{ Alert, Expr, Summary, Runbook string }

// Rules returns all alerts.
func Rules() ([]Rule, error) {
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(rules, &file); err != nil {
		return nil, fmt.Errorf("reading the rules of the alerts: %w", err)
	}
	var all []Rule
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			all = append(all, Rule{r.Alert, r.Expr, r.Annotations["summary"], strings.TrimSuffix(path.Base(r.Annotations["runbook_url"]), ".md")})
		}
	}
	return all, nil
}
