package deploy_test

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"github.com/gpuaas/gpuaas/platform/identity/devseed"
)

type mapper struct {
	Mapper string            `json:"protocolMapper"`
	Config map[string]string `json:"config"`
}

type client struct {
	ID         string            `json:"clientId"`
	Secret     string            `json:"secret"`
	Public     bool              `json:"publicClient"`
	Code       bool              `json:"standardFlowEnabled"`
	Implicit   bool              `json:"implicitFlowEnabled"`
	Password   bool              `json:"directAccessGrantsEnabled"`
	Redirects  []string          `json:"redirectUris"`
	Attributes map[string]string `json:"attributes"`
	Mappers    []mapper          `json:"protocolMappers"`
}

type realm struct {
	Realm    string `json:"realm"`
	Rotate   bool   `json:"revokeRefreshToken"`
	MaxReuse *int   `json:"refreshTokenMaxReuse"`
	Roles    struct {
		Realm []struct {
			Name string `json:"name"`
		} `json:"realm"`
	} `json:"roles"`
	Clients []client `json:"clients"`
	Users   []struct {
		Username      string   `json:"username"`
		Email         string   `json:"email"`
		EmailVerified bool     `json:"emailVerified"`
		Enabled       bool     `json:"enabled"`
		FirstName     string   `json:"firstName"`
		LastName      string   `json:"lastName"`
		RealmRoles    []string `json:"realmRoles"`
		Credentials   []struct {
			Value string `json:"value"`
		} `json:"credentials"`
	} `json:"users"`
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func readRealm(t *testing.T) (r realm) {
	t.Helper()
	if err := json.Unmarshal([]byte(read(t, "keycloak/realm.json")), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// What a realm gives everyone, under the name that Keycloak makes from its own.
const everyones = "default-roles-gpuaas"

func TestRealmHoldsThePeople(t *testing.T) {
	t.Parallel()
	r := readRealm(t)
	got, want := map[string][]string{}, map[string][]string{}
	for _, u := range r.Users {
		got[u.Email] = u.RealmRoles
		if u.Username != u.Email || !u.EmailVerified || !u.Enabled || u.FirstName == "" || u.LastName == "" {
			t.Errorf("%s could not sign in at once: %+v", u.Email, u)
		}
		if len(u.Credentials) != 1 || u.Credentials[0].Value != "gpuaas" {
			t.Errorf("%s has another password than in the README", u.Email)
		}
	}
	for _, p := range devseed.People() {
		want[p.Email] = append([]string{everyones}, p.ProviderRoles()...)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestRealmHoldsTheRoles(t *testing.T) {
	t.Parallel()
	var got []string
	for _, role := range readRealm(t).Roles.Realm {
		got = append(got, role.Name)
	}
	want := []string{devseed.ProviderRole("admin"), devseed.ProviderRole("operator"), devseed.ProviderRole("billing_operator")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestRealmHoldsTheClients(t *testing.T) {
	t.Parallel()
	r := readRealm(t)
	if r.Realm != "gpuaas" || !r.Rotate || r.MaxReuse == nil || *r.MaxReuse != 0 {
		t.Error("refresh tokens of the realm may be used twice")
	}
	want := map[string]client{
		devseed.Client: {
			Secret: "gpuaas-development", Redirects: []string{"http://localhost:8080/auth/callback", "http://127.0.0.1:8080/auth/callback"},
		},
		devseed.CLIClient: {Public: true, Redirects: []string{"http://127.0.0.1/*"}},
	}
	if len(r.Clients) != len(want) {
		t.Errorf("%d clients", len(r.Clients))
	}
	for _, c := range r.Clients {
		w, ok := want[c.ID]
		if !ok || c.Public != w.Public || c.Secret != w.Secret || !slices.Equal(c.Redirects, w.Redirects) {
			t.Errorf("client %q: %+v", c.ID, c)
		}
		if !c.Code || c.Implicit || c.Password || c.Attributes["pkce.code.challenge.method"] != "S256" {
			t.Errorf("%s: not by code with PKCE alone", c.ID)
		}
		if device := c.Attributes["oauth2.device.authorization.grant.enabled"] == "true"; device != c.Public {
			t.Errorf("%s: device flow %t", c.ID, device)
		}
		holdsMappers(t, c)
	}
}

func holdsMappers(t *testing.T, c client) {
	t.Helper()
	found := map[string]map[string]string{}
	for _, m := range c.Mappers {
		found[m.Mapper] = m.Config
	}
	aud, roles := found["oidc-audience-mapper"], found["oidc-usermodel-realm-role-mapper"]
	// An ID token for the API would be accepted as an access token.
	if aud["included.custom.audience"] != devseed.Audience || aud["access.token.claim"] != "true" || aud["id.token.claim"] != "false" {
		t.Errorf("%s: audience %v", c.ID, aud)
	}
	if roles["claim.name"] != "realm_access.roles" || roles["multivalued"] != "true" || roles["access.token.claim"] != "true" || roles["id.token.claim"] != "true" {
		t.Errorf("%s: roles %v", c.ID, roles)
	}
	if found["oidc-sub-mapper"]["access.token.claim"] != "true" {
		t.Errorf("%s: access tokens name no audience", c.ID)
	}
}

type service struct {
	Image string `yaml:"image"`
	Build struct {
		Context    string `yaml:"context"`
		Dockerfile string `yaml:"dockerfile"`
	} `yaml:"build"`
	Command     []string          `yaml:"command"`
	Environment map[string]string `yaml:"environment"`
	Volumes     []string          `yaml:"volumes"`
	Ports       []string          `yaml:"ports"`
	NetworkMode string            `yaml:"network_mode"`
	Profiles    []string          `yaml:"profiles"`
	DependsOn   map[string]any    `yaml:"depends_on"`
}

type compose struct {
	Services map[string]service `yaml:"services"`
	Volumes  map[string]any     `yaml:"volumes"`
}

func readCompose(t *testing.T) (c compose) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(read(t, "compose.yaml")), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// The folder in which Docker has the logs of the containers.
const dockerLogs = "/var/lib/docker/containers"

// Whatever the file names is there: a folder, a volume, a service.
func TestComposeNamesWhatIsThere(t *testing.T) {
	t.Parallel()
	c := readCompose(t)
	for name, s := range c.Services {
		for _, v := range s.Volumes {
			source, _, _ := strings.Cut(v, ":")
			_, volume := c.Volumes[source]
			if _, err := os.Stat(source); !volume && source != dockerLogs && (err != nil || !strings.HasPrefix(source, ".")) {
				t.Errorf("%s mounts %s, which is not there", name, source)
			}
		}
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s publishes %s to everyone", name, p)
			}
		}
		if _, tag, _ := strings.Cut(s.Image, ":"); s.Image != "" && (tag == "" || tag == "latest") {
			t.Errorf("%s runs whatever %s is", name, s.Image)
		}
		for other := range s.DependsOn {
			if _, ok := c.Services[other]; !ok {
				t.Errorf("%s depends on %s, which is not there", name, other)
			}
		}
	}
	ours := c.Services["gpuaas"]
	if _, err := os.Stat(filepath.Join(ours.Build.Context, ours.Build.Dockerfile)); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]string{"postgres": "postgres:16", "keycloak": "quay.io/keycloak/keycloak:26."} {
		if !strings.HasPrefix(c.Services[name].Image, want) {
			t.Errorf("%s is %s", name, c.Services[name].Image)
		}
	}
}

// The server, the browser and Keycloak use the same names for each other.
func TestComposeFitsTheRealm(t *testing.T) {
	t.Parallel()
	c, r := readCompose(t), readRealm(t)
	ours, keycloak := c.Services["gpuaas"], c.Services["keycloak"]
	if got, want := ours.Environment["GPUAAS_OIDC_ISSUER_URL"], keycloak.Environment["KC_HOSTNAME"]+"/realms/"+r.Realm; got != want {
		t.Errorf("the server expects %s, and Keycloak is %s", got, want)
	}
	if ours.NetworkMode != "service:keycloak" || !slices.Contains(keycloak.Command, "--import-realm") {
		t.Error("the server does not find Keycloak at its name, or the realm is not imported")
	}
	for _, cl := range r.Clients {
		if cl.ID == devseed.Client && cl.Secret != ours.Environment["GPUAAS_OIDC_CLIENT_SECRET"] {
			t.Error("the server's secret is not the realm's")
		}
		for _, redirect := range cl.Redirects {
			if at, err := url.Parse(redirect); err != nil || at.Port() != "" && !slices.Contains(keycloak.Ports, "127.0.0.1:"+at.Port()+":"+at.Port()) {
				t.Errorf("%s leads to a port that nothing answers at", redirect)
			}
		}
	}
	database, err := url.Parse(ours.Environment["DATABASE_URL"])
	if err != nil {
		t.Fatal(err)
	}
	pg := c.Services["postgres"].Environment
	if password, _ := database.User.Password(); database.User.Username() != pg["POSTGRES_USER"] || password != pg["POSTGRES_PASSWORD"] ||
		strings.TrimPrefix(database.Path, "/") != pg["POSTGRES_DB"] || database.Hostname() != "postgres" {
		t.Errorf("the server expects %s", database.Redacted())
	}
	if !slices.Contains(keycloak.Volumes, "./keycloak/realm.json:/opt/keycloak/data/import/realm.json:ro") {
		t.Error("the realm is not where Keycloak imports from")
	}
}

// Each port on which the server listens for users is published, and the image names it.
func TestComposePublishesTheListeners(t *testing.T) {
	t.Parallel()
	services, image := readCompose(t).Services, read(t, "Dockerfile")
	command := services["gpuaas"].Command
	for _, flag := range []string{"--listen", "--storage-listen"} {
		i := slices.Index(command, flag)
		if i < 0 {
			t.Errorf("the server has no %s", flag)
			continue
		}
		port := strings.TrimPrefix(command[i+1], "0.0.0.0:")
		if !slices.Contains(services["keycloak"].Ports, "127.0.0.1:"+port+":"+port) {
			t.Errorf("%s: the port %s is not published", flag, port)
		}
		if !regexp.MustCompile(`(?m)^EXPOSE .*\b` + port + `\b`).MatchString(image) {
			t.Errorf("%s: the image does not expose %s", flag, port)
		}
	}
}

// NATS has the users of nats.conf, and the server connects as the one with all roles.
func TestComposeFitsTheUsersOfNATS(t *testing.T) {
	t.Parallel()
	services, config := readCompose(t).Services, read(t, "nats.conf")
	nats := services["nats"]
	for _, variable := range regexp.MustCompile(`\$(GPUAAS_NATS_\w+)`).FindAllStringSubmatch(config, -1) {
		if nats.Environment[variable[1]] == "" {
			t.Errorf("NATS gets no %s", variable[1])
		}
	}
	path := strings.TrimPrefix(nats.Volumes[0], "./nats.conf:")
	if !slices.Contains(nats.Command, strings.TrimSuffix(path, ":ro")) || !strings.HasSuffix(path, ":ro") {
		t.Errorf("NATS reads %v, and its file is %s", nats.Command, path)
	}
	at, err := url.Parse(services["gpuaas"].Environment["NATS_URL"])
	if err != nil {
		t.Fatal(err)
	}
	if password, _ := at.User.Password(); at.User.Username() != "all" || password != nats.Environment["GPUAAS_NATS_PASSWORD_ALL"] || at.Hostname() != "nats" {
		t.Errorf("the server connects to %s", at.Redacted())
	}
}

func TestImageIsStaticAndNotRoot(t *testing.T) {
	t.Parallel()
	text := read(t, "Dockerfile")
	language := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, "../go.mod"))[1]
	for _, want := range []string{"FROM golang:" + language + "-", "CGO_ENABLED=0", "-tags nomsgpack", "\nUSER nonroot\n", `ENTRYPOINT ["/usr/bin/gpuaas"]`} {
		if !strings.Contains(text, want) {
			t.Errorf("the Dockerfile has no %q", want)
		}
	}
}

// A tag can be moved to other content, a digest or a commit cannot.
func TestImagesAndActionsAreNamedByDigest(t *testing.T) {
	t.Parallel()
	used := regexp.MustCompile(`(?m)^\s*(?:FROM|image:|-? ?uses:)\s+(\S+)`)
	digest := regexp.MustCompile(`@(sha256:[0-9a-f]{64}|[0-9a-f]{40})$`)
	n := 0
	for _, path := range []string{"Dockerfile", "compose.yaml", "ci/github/gpuaas.yaml", "ci/gitlab/gpuaas.yaml", "ci/gitea/gpuaas.yaml"} {
		for _, m := range used.FindAllStringSubmatch(read(t, path), -1) {
			if n++; !digest.MatchString(m[1]) {
				t.Errorf("%s uses %s: name it by digest or commit", path, m[1])
			}
		}
	}
	if n < 10 {
		t.Errorf("only %d images and actions were found", n)
	}
}
