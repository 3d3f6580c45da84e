package rest_test

import (
	"encoding/csv"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/platform/payment"
)

func (b *fixture) table(t *testing.T, path string) [][]string {
	t.Helper()
	w := b.do(t, call{method: "GET", path: path, token: tokenOwner})
	if w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/csv") || !strings.Contains(w.Header().Get("Content-Disposition"), "attachment") {
		t.Fatalf("%s: %d %v %s", path, w.Code, w.Header(), w.Body)
	}
	rows, err := csv.NewReader(w.Body).ReadAll()
	if err != nil || len(rows) < 2 {
		t.Fatalf("%s: %v %v", path, rows, err)
	}
	return rows
}

// A spreadsheet runs a text that begins like a formula, and adds up a number that
// begins with a minus.
func TestExportsOfMoneyAreNumbersAndNoFormulas(t *testing.T) {
	t.Parallel()

	b := setup(t)
	sum := int64(0)
	for _, row := range b.table(t, "/api/v1/billing/ledger/csv?from="+t0.Add(-24*time.Hour).Format(time.RFC3339)+"")[1:] {
		n, err := strconv.ParseInt(row[6], 10, 64)
		if err != nil {
			t.Errorf("%v: %v", row, err)
		}
		sum += n
		if row[4] == "@x" || strings.HasPrefix(row[8], "=") {
			t.Errorf("a formula: %v", row)
		}
	}
	if sum != balance {
		t.Errorf("the ledger sums to %d", sum)
	}
	if rows := b.table(t, "/api/v1/billing/usage/csv"); len(rows[1]) != len(rows[0]) || rows[1][11] != "96" {
		t.Errorf("%v", rows)
	}

	rows := b.table(t, "/api/v1/billing/statements/"+t0.Format("2006-01")+"/csv")
	total := int64(0)
	for _, row := range rows[1:] {
		n, err := strconv.ParseInt(row[8], 10, 64)
		if err != nil || len(row) != len(rows[0]) {
			t.Errorf("%v: %v", row, err)
		}
		if row[0] == "closing" && n != total {
			t.Errorf("the lines sum to %d, and it closes with %d", total, n)
		}
		total += n
	}
	if rows[2][0] != "usage" || rows[2][1] != "'=1+1" || rows[len(rows)-1][0] != "closing" {
		t.Errorf("%v", rows)
	}
}

func TestTheStatementsPageIsMadeToBePrinted(t *testing.T) {
	t.Parallel()

	b := setup(t)
	b.sql(`UPDATE tenants SET name = '<dev>' WHERE id = $1`, tenant)
	w := b.do(t, call{method: "GET", path: "/api/v1/billing/statements/" + t0.Format("2006-01") + "/page", token: tokenOwner})
	text := w.Body.String()
	for _, want := range []string{"&lt;dev&gt;", "EUR 989.03", "EUR -0.96", "0:10:00", "<tfoot>", "=HYPERLINK(1)"} {
		if !strings.Contains(text, want) {
			t.Errorf("without %q", want)
		}
	}
	if w.Code != 200 || strings.Contains(text, "<script") || strings.Contains(text, "<dev>") || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v\n%s", w.Code, w.Header(), text)
	}
	if w := b.do(t, call{method: "GET", path: "/assets/style.css"}); !strings.Contains(w.Body.String(), "@media print") {
		t.Error("nothing is styled for paper")
	}
	for path, want := range map[string]int{"2020-02/page": 404, "2026-13/page": 400, "2026-1/page": 400, "2020-02/csv": 404, "0000-01": 404, "9999-12": 404} {
		if w := b.do(t, call{method: "GET", path: "/api/v1/billing/statements/" + path, token: tokenOwner}); w.Code != want {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

// The result page displays the state of the checkout session, and reloads while that state may change; only users
// who may read it through the API see it.
func TestTheOutcomeOfAPayment(t *testing.T) {
	t.Parallel()

	b := setup(t, passwords)
	owner, path := b.signIn(tokenOwner), payment.PagePath+paidSession.String()
	if w := b.visit(t, "GET", path, ""); w.Code != 302 || w.Header().Get("Location") != "/sign-in?return=%2Fpayments%2F"+paidSession.String() {
		t.Errorf("no token: %d %v", w.Code, w.Header())
	}
	for state, waits := range map[payment.State]bool{
		payment.Initiated: true, payment.CheckoutCompleted: true, payment.Credited: false, payment.FailedReconcile: false, payment.Expired: false,
	} {
		url := ""
		if state == payment.Initiated {
			url = payAt + "1"
		}
		b.sql(`UPDATE payment_sessions SET status = $2, url = $3 WHERE id = $1`, paidSession, state, url)
		w := b.visit(t, "GET", path, "", with(owner))
		text := w.Body.String()
		if w.Code != 200 || strings.Contains(text, `http-equiv="refresh"`) != waits || strings.Contains(text, "<script") ||
			strings.Contains(text, "https://pay.example") != (state == payment.Initiated) || !strings.Contains(text, "EUR 50.00") {
			t.Errorf("%s: %d %s", state, w.Code, text)
		}
	}
	for what, c := range map[string]struct {
		cookie *http.Cookie
		path   string
		want   int
	}{
		"another's":                    {owner, payment.PagePath + "01990f46-1111-7222-8333-444455556666", 404},
		"not an id":                    {owner, payment.PagePath + "x", 404},
		"whose role does not allow it": {b.signIn(tokenMember), path, 403},
	} {
		if w := b.visit(t, "GET", c.path, "", with(c.cookie)); w.Code != c.want {
			t.Errorf("%s: %d %s", what, w.Code, w.Body)
		}
	}
}

func TestLimitsAreChangedFromWhatWasRead(t *testing.T) {
	t.Parallel()

	b := setup(t)
	const path = "/api/v1/billing/limits"
	tag := b.do(t, call{method: "GET", path: path, token: tokenOwner}).Header().Get("ETag")
	for i, c := range []struct {
		match string
		want  int
	}{{tag, 200}, {tag, 412}, {"", 200}} {
		w := b.do(t, call{method: "PUT", path: path, token: tokenOwner, body: `{"hourly_spend_minor":` + strconv.Itoa(5000+i) + `}`, header: map[string]string{"If-Match": c.match}})
		if w.Code != c.want {
			t.Errorf("%d: If-Match %s: %d %s", i, c.match, w.Code, w.Body)
		}
	}
	for token, want := range map[string]int{tokenMember: 403, tokenOperator: 403, tokenOwner: 200} {
		if w := b.do(t, call{method: "PUT", path: path, token: token, body: `{}`}); w.Code != want {
			t.Errorf("%s: %d %s", token, w.Code, w.Body)
		}
	}
}

// A caller without a tenant gets an error, and no rows of others.
func TestMoneyOfNoTenant(t *testing.T) {
	t.Parallel()

	b := setup(t)
	for _, path := range []string{
		"balance", "usage", "usage/summary", "usage/intervals", "usage/csv", "evidence", "ledger", "ledger/csv", "statements", "statements/" + t0.Format("2006-01"), "refunds", "limits",
	} {
		if w := b.do(t, call{method: "GET", path: "/api/v1/billing/" + path, token: tokenAlone}); w.Code != 404 {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

// Usage and ledger name allocation, project and SKU, also after the release of the allocation and the deletion of the
// project. The entries of a project are those of its allocations, and another tenant's project has none.
func TestUsageAndLedgerHaveNamesAndAProject(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.sql(`INSERT INTO allocations (id, org_id, project_id, user_id, name, sku, region, gpus, price_minor, currency, login, host_uid, status, ended_at)
		SELECT allocation_id, org_id, project_id, user_id, 'brave-otter', sku, 'eu-1', gpus, price_minor, currency, 'u', 1, 'released', now() FROM usage_records WHERE allocation_id = $1`, usedBy)
	type item struct {
		AllocationName string `json:"allocation_name"`
		ProjectName    string `json:"project_name"`
		SKU            string `json:"sku"`
		Amount         int64  `json:"amount_minor"`
		Kind           string `json:"kind"`
	}
	list := func(path string) []item {
		t.Helper()
		w := b.do(t, call{method: "GET", path: "/api/v1/billing/" + path, token: tokenOwner})
		var page struct{ Items []item }
		if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || w.Code != 200 {
			t.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
		return page.Items
	}
	from := "?from=" + t0.Add(-24*time.Hour).Format(time.RFC3339)
	for _, path := range []string{"usage" + from, "usage/intervals" + from, "ledger" + from + "&kind=usage"} {
		items := list(path)
		if i := slices.IndexFunc(items, func(i item) bool { return i.AllocationName == "brave-otter" }); i < 0 || items[i].ProjectName != "=1+1" || items[i].SKU != sku {
			t.Errorf("%s: %+v", path, items)
		}
	}
	if of := list("ledger" + from + "&project_id=" + formula.String()); len(of) != 1 || of[0].Amount != -96 || of[0].Kind != "usage" {
		t.Errorf("the entries of a project: %+v", of)
	}
	for _, other := range []string{project.String(), theirProject.String()} {
		if of := list("ledger" + from + "&project_id=" + other); len(of) != 0 {
			t.Errorf("the entries of project %s: %+v", other, of)
		}
	}
	if rows := b.table(t, "/api/v1/billing/ledger/csv"+from+"&project_id="+formula.String()); len(rows) != 2 || rows[1][6] != "-96" {
		t.Errorf("exported: %v", rows)
	}
}
