package request

import (
	"testing"

	"github.com/gpuaas/gpuaas/api/openapi"
)

// Headers that every write has must use the fast path. A change of the contract could disable it without a failure.
func TestHeadersOfWritesAreOnlyBounded(t *testing.T) {
	t.Parallel()
	doc, err := openapi.Document()
	if err != nil {
		t.Fatal(err)
	}
	all, err := OperationsOf(doc)
	if err != nil {
		t.Fatal(err)
	}
	op := all[Route{"POST", "/api/v1/allocations"}]
	for name, most := range map[string]uint64{"X-Project-ID": 63, "X-Idempotency-Key": 255, "Idempotency-Key": 257} {
		if got := op.Bounded[name]; got != (bounds{1, most}) {
			t.Errorf("%s is bounded by %v", name, got)
		}
	}
	if len(op.Bounded) != 3 {
		t.Errorf("got %v", op.Bounded)
	}
}

// An operation with a value that can be guessed uses the shared limits for each request. So does an operation that is
// open to everyone and writes, unless its input is signed.
func TestWhatIsWorthGuessingIsStrict(t *testing.T) {
	t.Parallel()
	doc, err := openapi.Document()
	if err != nil {
		t.Fatal(err)
	}
	all, err := OperationsOf(doc)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Class{
		"exchangeOidc": ClassSignIn, "loginPersonal": ClassSignIn, "setPassword": ClassSignIn, "authorizeOidc": ClassAnonymous,
		"refreshToken": ClassToken, "mintServiceAccountToken": ClassToken, "createApiKey": ClassToken, "createCredential": ClassToken, "createStorageKey": ClassToken,
		"createCheckoutSession": ClassPayment, "createPortalSession": ClassPayment, "createAutoTopup": ClassPayment, "confirmAutoTopup": ClassPayment, "createRefund": ClassPayment, "adjustBalance": ClassPayment,
		"receivePaymentEvent": ClassNone, "receiveGitHook": ClassNone, "createPlan": ClassPlan, "createEnrolmentToken": ClassEnrolment, "getLivez": ClassNone, "listSkus": ClassRead, "createAllocation": ClassWrite,
	}
	for _, op := range all {
		if class, ok := want[op.ID]; ok && op.Class != class {
			t.Errorf("%s is of the class %s, want %s", op.ID, op.Class, class)
		}
		delete(want, op.ID)
		// A signature and a signed URL are not guessed, and failed ones are charged to their address.
		if op.Public && op.Write && !op.Signed && op.Class != ClassStorage && !op.Class.Strict() {
			t.Errorf("%s is open to everyone, writes, and fails open", op.ID)
		}
	}
	if len(want) > 0 {
		t.Errorf("not in the contract: %v", want)
	}
}
