// Package acceptance lists the acceptance criteria of the product. Each names the tests that prove it, or the capability
// that it waits for. The criteria with a test of this package run on one installation of gpuaas up.
package acceptance

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// criterion is an acceptance criterion. A test is named as folder.Test; the folder of this package is e2e/acceptance.
type criterion struct {
	id, sentence string
	tests        []string
	waits        string // the missing capability, or the missing part
}

var criteria = []criterion{
	{id: "AT-001", sentence: "The first sign-in with PKCE creates the user, and the next one updates row and role.", tests: []string{
		"e2e.TestSignInInABrowser", "platform/identity/signin.TestFirstSignInMakesAPerson", "platform/identity/signin.TestProviderDecidesRolesWhereTheProfileMapsThem",
	}},
	{id: "AT-002", sentence: "A missing, expired, forged or wrong-algorithm token gets its exact code; a rotated key works at once.", tests: []string{
		"platform/identity/oidc.TestINV59HostileTokensAreRejected", "platform/identity/oidc.TestRotationRejectsNoToken", "platform/identity/signin.TestTokensThatAreNotGood",
	}},
	{id: "AT-003", sentence: "A user gets 403 on every admin route; another tenant's id is like a missing one; after logout nothing works.", tests: []string{
		"e2e/matrix.TestINV55TheMatrix", "api/rest.TestRenewingAndLeaving", "api/rest.TestForbiddenComesFirst",
	}},
	{id: "AT-010", sentence: "Active SKUs have a price and a free count, which falls with a claim and returns after the proof; no host name.", tests: []string{"e2e/acceptance.TestAT010"}},
	{id: "AT-020", sentence: "Create leads to active: SSH with a registered key works, only the claimed GPU opens, metering starts at active.", tests: []string{
		"e2e/acceptance.TestAT020", "e2e/host.TestNode",
	}, waits: "a real GPU: slices"},
	{id: "AT-023", sentence: "402, 409 and 429 of a create; 200 parallel creates at cap − 1 give one; a queued request starts when a slot is free.", tests: []string{
		"product/allocation.TestRejectedRequests", "product/allocation.TestINV07Caps", "product/allocation.TestQueueServesTheOldestRequestFirst", "e2e/matrix.TestINV07CapsLimitParallelCreates",
	}},
	{id: "AT-030", sentence: "Release: key, process and home are gone; a second release is 409; the slot is sold only after the proof; usage ends at the request.", tests: []string{
		"e2e/acceptance.TestAT030", "e2e/host.TestNode",
	}, waits: "a real GPU: slices"},
	{id: "AT-031", sentence: "Exhausted provisioning leads to failed: the node is clean and nothing is charged.", tests: []string{
		"jobs.TestRecordGaveUp", "product/allocation.TestINV03FailedIsNotClean", "platform/notification.TestAFailedProvisioningIsSent",
	}},
	{id: "AT-032", sentence: "An exhausted release leads to release_failed: billing stops, the slot is quarantined; a retry or a forced release ends in released.", tests: []string{
		"product/allocation.TestReleaseFailed", "product/allocation/manage.TestAT032AForcedReleaseEndsByAProof",
	}},
	{id: "AT-040", sentence: "Two windows bill the exact amount, any other division of the time the same; a replay adds nothing.", tests: []string{
		"platform/metering.TestINV30RandomHistories", "platform/metering.TestINV30ATickIsChargedOnce",
	}},
	{id: "AT-041", sentence: "One warning for each crossing, a reminder after 24 h, a pending release with a deadline; a credit clears it.", tests: []string{
		"platform/billing.TestNotices", "platform/billing.TestTheDeadlineStaysUnchanged", "jobs.TestTenantsAreNotified", "jobs.TestCreditBeforeTheRelease",
		"platform/notification.TestAudiences",
	}},
	{id: "AT-042", sentence: "Depletion releases all, the overdraft is within its bound; CSV equals ledger.", tests: []string{"jobs.TestINV35AThousandRunOut", "e2e/acceptance.TestAT042"}},
	{id: "AT-050", sentence: "Checkout gives URL and row; below the minimum 400; the same key gives the same session.", tests: []string{"e2e/acceptance.TestAT050"}},
	{id: "AT-051", sentence: "A signed event credits once; one changed byte is 400; 1,000 shuffled duplicates equal the unique set.", tests: []string{
		"platform/payment.TestINV31And32OneCreditForEachPaymentOrNone", "platform/payment.TestOnlySignedEventsAreStored",
	}},
	{id: "AT-052", sentence: "A wrong amount, currency, customer or mode leads to failed_reconcile, listed; the sweep finds a dropped event.", tests: []string{
		"platform/payment.TestINV31And32OneCreditForEachPaymentOrNone", "platform/payment.TestINV38DroppedEventsAreFound",
	}},
	{id: "AT-053", sentence: "A refund inside the window, 422 beyond, never more than paid; the customer portal opens.", tests: []string{
		"platform/payment.TestRefundRoutes", "platform/payment.TestINV36RefundsNeverExceedThePayment", "platform/payment.TestPortal",
	}},
	{id: "AT-060", sentence: "Upload, list, download, rename, delete; then 404.", tests: []string{"e2e/acceptance.TestAT060"}},
	{id: "AT-061", sentence: "Traversal is 400; the quota is 400, in parallel too; another project's path is 404.", tests: []string{"e2e/acceptance.TestAT061"}},
	{id: "AT-062", sentence: "An upload resumes across restarts of client and server.", tests: []string{"e2e.TestKilledUploadContinues"}},
	{id: "AT-063", sentence: "The quota is exact under parallel uploads.", tests: []string{"product/storage.TestQuotasAreExact"}},
	{id: "AT-064", sentence: "An S3 tool uploads, the browser lists.", tests: []string{"e2e/acceptance.TestAT064", "e2e.TestPortalFilesInABrowser"}},
	{id: "AT-065", sentence: "Mounted data follows a project from one node to the next.", tests: []string{"e2e/acceptance.TestAT065", "e2e/host.TestMounts"}},
	{id: "AT-070", sentence: "Request n passes, n + 1 is 429 with headers and Retry-After, then requests recover.", tests: []string{"api/rest.TestLimits", "api/rest.TestLimitHeadersAreOnEveryAnswer"}},
	{id: "AT-071", sentence: "Actors and classes have separate buckets; the concurrency 429 has no Retry-After.", tests: []string{"api/rest.TestLimits", "api/rest.TestReplicasShareLimits"}},
	{id: "AT-072", sentence: "With the limiter store down, reads pass and are counted; sign-in, payment, enrolment and token minting are denied.", tests: []string{"api/rest.TestLimiterStoreAway"}},
	{id: "AT-080", sentence: "One audit row for each privileged mutation; rolled back, none.", tests: []string{
		"e2e/acceptance.TestAT080", "platform/identity.TestINV57EveryChangeHasOneAuditRow", "platform/audit.TestRolledBackChangeLeavesNoRow",
	}},
	{id: "AT-081", sentence: "Audit filters by actor, target, action and date; CSV has the same rows.", tests: []string{"e2e/acceptance.TestAT081", "platform/audit.TestSearchFindsByEveryFilter"}},
	{id: "AT-082", sentence: "The application role cannot change a row; a superuser's edit visibly breaks the chain.", tests: []string{
		"platform/audit.TestINV29NoRoleChangesRowsOrSeals", "platform/audit.TestINV29EditBehindASealIsFound",
	}},
	{id: "AT-083", sentence: "One correlation id through request, event, job, task, audit and notification; planted secrets are nowhere.", tests: []string{
		"e2e/acceptance.TestAT083", "e2e.TestTrace", "e2e/matrix.TestINV57CanariesStayHidden",
	}},
	{id: "AT-090", sentence: "A terminal token works once; replayed, late and misplaced ones are rejected; a reload resumes.", tests: []string{
		"e2e/acceptance.TestAT090", "api/terminal.TestINV51RejectedUses", "api/terminal.TestTwoServersWithoutStickyRouting",
	}},
	{id: "AT-091", sentence: "Pull request, plan, merge, applied; an incomplete or invalid commit changes nothing.", tests: []string{
		"e2e.TestChangeByPullRequest", "e2e.TestBrokenFileKeepsLastGoodRevision", "e2e.TestFaultyFleet",
	}},
	{id: "AT-092", sentence: "Drift is detected, priced and healed; killing jobs, agents or NATS loses nothing.", tests: []string{
		"e2e.TestDriftFaultPartition", "e2e.TestINV05EveryFailpoint", "e2e.TestAgentKilledMidTask", "e2e.TestNATSAway",
	}},
	{id: "AT-093", sentence: "On a partitioned node tenants continue, and the slot is not sold again.", tests: []string{"e2e.TestDriftFaultPartition"}},
	{id: "AT-094", sentence: "A fresh clone leads to the first Ready allocation in at most 4 commands, without account, container or GPU.", tests: []string{"e2e.TestPages"}},
	{id: "AT-095", sentence: "SSH works while the node's address is unreachable.", tests: []string{"e2e/host.TestNode"}},
	{id: "AT-096", sentence: "An editor's remote server starts through ssh-config.", tests: []string{"e2e/host.TestNode"}},
	{id: "AT-097", sentence: "A required recording plays back equal to the screen; end-to-end SSH is rejected.", tests: []string{
		"e2e/acceptance.TestAT097", "api/terminal.TestARequiredRecordingEqualsTheScreen", "api/terminal.TestARequiredRecordingRejectsSSH",
	}},
	{id: "AT-098", sentence: "A GPU fault appears in its tenant's kernel log and in no other tenant's.", tests: []string{"e2e/acceptance.TestAT098"}},
	{id: "AT-100", sentence: "One allocation's life as notifications, e-mails and webhooks, each once, with one correlation id.", tests: []string{
		"e2e/acceptance.TestAT100", "platform/notification.TestRepeatsAreOneEmail",
	}},
	{id: "AT-101", sentence: "A webhook endpoint is down for days, disabled, enabled and replayed, and nothing is missing.", tests: []string{"server.TestAT101NothingIsMissingAfterAnOutageOfAWebhook"}},
	{id: "AT-102", sentence: "A stream is deleted under load, and no duplicate reaches a user.", tests: []string{"server.TestAT102AStreamDeletedUnderLoadRepeatsNothing"}},
	{id: "AT-103", sentence: "A digest is one e-mail at its time, and quiet hours delay all but critical kinds.", tests: []string{"platform/notification.TestDigestsAndQuietHours"}},
	{id: "AT-104", sentence: "A newcomer reaches a shell in at most 6 clicks from the sign-in.", tests: []string{"e2e.TestANewcomerReachesAShell"}},
	{id: "AT-105", sentence: "A plan is approved in the browser with the numbers of gpuaas plan.", tests: []string{"e2e.TestPlanInABrowser"}},
	{id: "AT-106", sentence: "The server restarts under a live page, and nothing is lost.", tests: []string{"e2e.TestPortalIsLive"}},
	{id: "AT-107", sentence: "A viewer is offered no action that returns 403.", tests: []string{"web.TestChangesAreGated", "web.TestChangesOfAViewer", "web.TestOperatorsAreOfferedWhatTheyMay"}},
	{id: "AT-160", sentence: "An outage is found by an alert, and resolved by the commands of its runbook.", tests: []string{"e2e.TestPrometheus"}, waits: "a trace in a collector"},
	{id: "AT-162", sentence: "A third party verifies a change offline.", tests: []string{"e2e/acceptance.TestAT162", "platform/evidence/bundle.TestEveryChangedByteIsDetected"}},
	{id: "AT-164", sentence: "A support bundle contains none of 859 planted secrets.", tests: []string{"e2e/acceptance.TestAT164"}},
}

const own = "e2e/acceptance."

// TestEveryCriterionNamesATestThatExists compares the table with the tests of the tree.
func TestEveryCriterionNamesATestThatExists(t *testing.T) {
	t.Parallel()
	tests := map[string]bool{}
	for _, c := range criteria {
		if len(c.tests) == 0 && c.waits == "" {
			t.Errorf("%s has neither a test nor a capability that it waits for", c.id)
		}
		for _, name := range c.tests {
			folder, test, _ := strings.Cut(name, ".")
			if _, read := tests[folder]; !read {
				readTests(t, tests, folder)
			}
			if !tests[folder+"."+test] {
				t.Errorf("%s: there is no test %s", c.id, name)
			}
			if folder+"." == own && test != "Test"+strings.ReplaceAll(c.id, "-", "") {
				t.Errorf("%s: %s has another id", c.id, name)
			}
		}
	}
	for name := range tests {
		if regexp.MustCompile(`\.TestAT\d{3}$`).MatchString(name) && !slices.ContainsFunc(criteria, func(c criterion) bool { return slices.Contains(c.tests, name) }) {
			t.Errorf("no criterion names %s", name)
		}
	}
}

func readTests(t *testing.T, into map[string]bool, folder string) {
	t.Helper()
	into[folder] = true
	files, err := filepath.Glob(filepath.Join("..", "..", folder, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests in %s: %v", folder, err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				into[folder+"."+f.Name.Name] = true
			}
		}
	}
}
