package deploy_test

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// isYAML checks a file of deploy/observability.
func isYAML(t *testing.T, path string) {
	t.Helper()
	var all map[string]any
	if err := yaml.Unmarshal([]byte(read(t, "observability/"+path)), &all); err != nil || len(all) == 0 {
		t.Fatalf("%s: %d keys: %v", path, len(all), err)
	}
}

// mounted returns the path at which a service mounts a file or folder of deploy.
func (s service) mounted(source string) string {
	for _, v := range s.Volumes {
		if rest, found := strings.CutPrefix(v, "./"+source+":"); found {
			return strings.TrimSuffix(rest, ":ro")
		}
	}
	return ""
}

// Only the profile starts these services, and each has its file, read-only, at the path in its command.
func TestComposeFitsTheObservabilityFiles(t *testing.T) {
	t.Parallel()
	services := readCompose(t).Services
	for name, s := range services {
		ours := slices.Contains([]string{"prometheus", "alertmanager", "loki", "tempo", "collector", "grafana"}, name)
		if ours != slices.Equal(s.Profiles, []string{"observability"}) {
			t.Errorf("%s has the profiles %v", name, s.Profiles)
		}
		for _, v := range s.Volumes {
			if ours && strings.HasPrefix(v, ".") && !strings.HasSuffix(v, ":ro") {
				t.Errorf("%s can write %s", name, v)
			}
		}
	}
	for name, file := range map[string]string{"prometheus": "prometheus.yaml", "loki": "loki.yaml", "tempo": "tempo.yaml", "collector": "collector.yaml"} {
		isYAML(t, file)
		if at := services[name].mounted("observability/" + file); at == "" || !strings.Contains(strings.Join(services[name].Command, " "), "file="+at) && !strings.Contains(strings.Join(services[name].Command, " "), "config="+at) {
			t.Errorf("%s reads %v, and its file is at %q", name, services[name].Command, at)
		}
	}
}

// Prometheus scrapes the port on which the server serves metrics, by a name that the server accepts.
func TestPrometheusScrapesTheServer(t *testing.T) {
	t.Parallel()
	services, text := readCompose(t).Services, read(t, "observability/prometheus.yaml")
	command := services["gpuaas"].Command
	value := func(flag string) string { return command[slices.Index(command, flag)+1] }
	target := regexp.MustCompile(`targets: \["([a-z]+):(\d+)"\] # the server`).FindStringSubmatch(text)
	if target == nil || value("--metrics-listen") != "0.0.0.0:"+target[2] || value("--metrics-name") != target[1] || "service:"+target[1] != services["gpuaas"].NetworkMode {
		t.Errorf("Prometheus scrapes %v, and the server is %v", target, command)
	}
	rules := services["prometheus"].mounted("alerts")
	for _, path := range regexp.MustCompile(`(?m)^  - (/\S+rules.yaml)$`).FindAllStringSubmatch(text, -1) {
		file, found := strings.CutPrefix(path[1], rules+"/")
		if !found || read(t, "alerts/"+file) == "" {
			t.Errorf("Prometheus loads %s, which is not there", path[1])
		}
	}
}

// Each data source is a service of the profile, and Grafana reads the generated dashboards.
func TestGrafanaIsProvisioned(t *testing.T) {
	t.Parallel()
	services := readCompose(t).Services
	var sources struct {
		Datasources []struct{ UID, Type, URL string }
	}
	if err := yaml.Unmarshal([]byte(read(t, "observability/provisioning/datasources/gpuaas.yaml")), &sources); err != nil || len(sources.Datasources) != 3 {
		t.Fatalf("%d data sources: %v", len(sources.Datasources), err)
	}
	for _, d := range sources.Datasources {
		if at, err := url.Parse(d.URL); err != nil || services[at.Hostname()].Image == "" || d.UID != at.Hostname() || d.Type != d.UID {
			t.Errorf("data source %+v", d)
		}
	}
	folder := services["grafana"].mounted("observability/grafana")
	if !strings.Contains(read(t, "observability/provisioning/dashboards/gpuaas.yaml"), "path: "+folder+"\n") || folder == "" {
		t.Errorf("Grafana does not read the dashboards at %q", folder)
	}
}

// Alertmanager names only alerts, receivers and labels that exist.
func TestAlertmanagerNamesWhatIsThere(t *testing.T) {
	t.Parallel()
	text := read(t, "observability/alertmanager.yaml")
	isYAML(t, "alertmanager.yaml")
	alerts := regexp.MustCompile(`alert: (GPUaaS\w+)`).FindAllStringSubmatch(read(t, "alerts/gpuaas.rules.yaml")+read(t, "alerts/gpuaas.slo.rules.yaml"), -1)
	n := 0
	for _, m := range regexp.MustCompile(`alertname(!?[=~]+)"([^"]+)"`).FindAllStringSubmatch(text, -1) {
		pattern := regexp.MustCompile("^(?:" + m[2] + ")$")
		for _, name := range regexp.MustCompile(`\w+`).FindAllString(strings.TrimPrefix(m[2], "GPUaaS"), -1) {
			full := name
			if !strings.HasPrefix(full, "GPUaaS") {
				full = "GPUaaS" + name
			}
			if n++; !slices.ContainsFunc(alerts, func(a []string) bool { return a[1] == full || pattern.MatchString(a[1]) && m[2] == "GPUaaS.+" }) {
				t.Errorf("no alert is named %s", full)
			}
		}
	}
	if n < 10 {
		t.Errorf("only %d names were found", n)
	}
	for _, m := range regexp.MustCompile(`receiver: (\S+)`).FindAllStringSubmatch(text, -1) {
		if !strings.Contains(text, "\n  - name: "+m[1]+"\n") {
			t.Errorf("no receiver is named %s", m[1])
		}
	}
}
