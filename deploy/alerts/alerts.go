// Package alerts contains the alerting rules of Prometheus.
package alerts

import (
	"embed"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

//go:embed *.rules.yaml
var files embed.FS

// Files returns the files of rules by name.
func Files() (map[string][]byte, error) {
	names, err := files.ReadDir(".")
	all := map[string][]byte{}
	for _, one := range names {
		if err == nil {
			all[one.Name()], err = files.ReadFile(one.Name())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("reading the rules of the alerts: %w", err)
	}
	return all, nil
}

// Rule is an alert. Runbook is the name of its page.
type Rule struct{ Alert, Expr, Summary, Runbook string }

// Rules returns all alerts.
func Rules() ([]Rule, error) {
	texts, err := Files()
	if err != nil {
		return nil, err
	}
	var all []Rule
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		var file struct {
			Groups []struct {
				Rules []struct {
					Alert, Expr string
					Annotations map[string]string
				}
			}
		}
		if err := yaml.Unmarshal(texts[name], &file); err != nil {
			return nil, fmt.Errorf("reading the rules of the alerts in %s: %w", name, err)
		}
		for _, g := range file.Groups {
			for _, r := range g.Rules {
				if r.Alert != "" { // otherwise it records a value
					all = append(all, Rule{r.Alert, r.Expr, r.Annotations["summary"], strings.TrimSuffix(path.Base(r.Annotations["runbook_url"]), ".md")})
				}
			}
		}
	}
	return all, nil
}
