package observability

import (
	_ "embed" // the objectives
	"fmt"
	"html"
	"net/url"
	"strings"
)

//go:embed slo.yaml
var objectives []byte

// Default returns the objectives of the file slo.yaml.
func Default() (Objectives, error) { return Parse(objectives) }

// Console returns a page of Prometheus itself with the present values of a dashboard, for an installation without Grafana.
// Prometheus evaluates it as a template at each request. The links lead to the portal below the URL.
func (d Dashboard) Console(server string) string {
	portal := html.EscapeString(server + "/portal")
	var b strings.Builder
	fmt.Fprintf(&b, `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="10"><title>%[1]s</title>
<style>body{font:15px/1.5 sans-serif;margin:2rem;max-width:70rem}td,th{text-align:left;padding:0 2rem 0 0}h2{font-size:1rem;margin:1.5rem 0 .2rem}</style>
</head><body><h1>%[1]s</h1><p><a href="/alerts">Alerts</a> · <a href="/targets">Targets</a> · <a href="%[2]s%[3]s">Portal</a></p>
`, html.EscapeString(d.Title), portal, d.Portal)
	for _, p := range d.Panels {
		fmt.Fprintf(&b, "<h2>%s</h2><p><a href=\"%s/runbooks/%s\">Runbook</a></p><table>\n", html.EscapeString(p.Title), portal, url.PathEscape(p.Runbook))
		for _, q := range p.Queries {
			expr := d.present(q.Expr)
			fmt.Fprintf(&b, "{{ range query `%s` }}<tr><td>{{ range $name, $value := .Labels }}{{ if ne $name \"__name__\" }}{{ $name }}={{ $value }} {{ end }}{{ else }}value{{ end }}</td><td>{{ .Value | humanize }}</td></tr>{{ else }}<tr><td>no data</td></tr>{{ end }}\n", expr)
		}
		b.WriteString("</table>\n")
	}
	b.WriteString("</body></html>\n")
	return b.String()
}

// present replaces the variables of Grafana: all values of each label, and rates over a minute.
func (d Dashboard) present(expr string) string {
	expr = strings.ReplaceAll(expr, "$__rate_interval", "1m")
	for _, l := range d.Labels {
		expr = strings.ReplaceAll(expr, "$"+l.Name, ".*")
	}
	return expr
}
