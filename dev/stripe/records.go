package stripe

import (
	"encoding/json"
	"net/http"
	"time"
)

// What a payment page, an intent, a charge and a refund may be, in the words of
// the API.
const (
	open     = "open"
	complete = "complete"
	expired  = "expired"

	unpaid = "unpaid"
	paid   = "paid"

	needsMethod = "requires_payment_method"
	processing  = "processing"

	succeeded = "succeeded"
	pending   = "pending"
	failed    = "failed"
)

type customer struct {
	ID          string            `json:"id"`
	Created     int64             `json:"created"`
	Name        string            `json:"name,omitempty"`
	Email       string            `json:"email,omitempty"`
	Description string            `json:"description,omitempty"`
	Phone       string            `json:"phone,omitempty"`
	Metadata    map[string]string `json:"metadata"`
}

// session is a payment page: somebody is asked for an amount, once.
type session struct {
	ID             string            `json:"id"`
	Created        int64             `json:"created"`
	ExpiresAt      int64             `json:"expires_at"`
	Amount         int64             `json:"amount"`
	Currency       string            `json:"currency"`
	Title          string            `json:"title"` // what is bought
	Customer       string            `json:"customer,omitempty"`
	Email          string            `json:"email,omitempty"`
	Reference      string            `json:"reference,omitempty"`
	SuccessURL     string            `json:"success_url"`
	CancelURL      string            `json:"cancel_url,omitempty"`
	Locale         string            `json:"locale,omitempty"`
	SubmitType     string            `json:"submit_type,omitempty"`
	Metadata       map[string]string `json:"metadata"`
	IntentMetadata map[string]string `json:"intent_metadata"`
	IntentText     string            `json:"intent_text,omitempty"`
	Status         string            `json:"status"`
	PaymentStatus  string            `json:"payment_status"`
	Intent         string            `json:"intent,omitempty"`
}

// intent is the attempt to have one amount paid, through any number of cards.
type intent struct {
	ID       string            `json:"id"`
	Created  int64             `json:"created"`
	Session  string            `json:"session"`
	Amount   int64             `json:"amount"`
	Received int64             `json:"received"`
	Currency string            `json:"currency"`
	Customer string            `json:"customer,omitempty"`
	Text     string            `json:"text,omitempty"`
	Metadata map[string]string `json:"metadata"`
	Status   string            `json:"status"`
	Charge   string            `json:"charge,omitempty"` // the latest
	Problem  *refusal          `json:"problem,omitempty"`
	SettleAt time.Time         `json:"settle_at,omitzero"` // zero: it waits for nothing
	SettleTo string            `json:"settle_to,omitempty"`
}

type charge struct {
	ID       string            `json:"id"`
	Created  int64             `json:"created"`
	Intent   string            `json:"intent"`
	Customer string            `json:"customer,omitempty"`
	Amount   int64             `json:"amount"`
	Refunded int64             `json:"refunded"`
	Currency string            `json:"currency"`
	Text     string            `json:"text,omitempty"`
	Metadata map[string]string `json:"metadata"`
	Status   string            `json:"status"`
	Problem  *refusal          `json:"problem,omitempty"`
	Payer    string            `json:"payer,omitempty"`
	Brand    string            `json:"brand"`
	Last4    string            `json:"last4"`
	ExpMonth int               `json:"exp_month"`
	ExpYear  int               `json:"exp_year"`
	Refunds  string            `json:"refunds,omitempty"` // how its card takes refunds
	Disputed bool              `json:"disputed,omitempty"`
}

type refund struct {
	ID       string            `json:"id"`
	Created  int64             `json:"created"`
	Charge   string            `json:"charge"`
	Intent   string            `json:"intent"`
	Amount   int64             `json:"amount"`
	Currency string            `json:"currency"`
	Reason   string            `json:"reason,omitempty"`
	Metadata map[string]string `json:"metadata"`
	Status   string            `json:"status"`
	Problem  string            `json:"problem,omitempty"`
	SettleAt time.Time         `json:"settle_at,omitzero"`
	SettleTo string            `json:"settle_to,omitempty"`
}

// portal is a page on which one customer sees their payments.
type portal struct {
	ID        string `json:"id"`
	Secret    string `json:"secret"` // in the page's address
	Created   int64  `json:"created"`
	Customer  string `json:"customer"`
	ReturnURL string `json:"return_url,omitempty"`
	Locale    string `json:"locale,omitempty"`
}

// event keeps an object as it was.
type event struct {
	ID        string          `json:"id"`
	Created   int64           `json:"created"`
	Type      string          `json:"type"`
	Account   string          `json:"account,omitempty"`
	Version   string          `json:"version"`
	Livemode  bool            `json:"livemode"`
	RequestID string          `json:"request_id,omitempty"`
	Key       string          `json:"key,omitempty"`
	Object    json.RawMessage `json:"object"`
	Before    json.RawMessage `json:"before,omitempty"` // what the object's changed fields were
}

// delivery is an event on its way to the webhook.
type delivery struct {
	ID       string    `json:"id"`
	Event    string    `json:"event"`
	DueAt    time.Time `json:"due_at"`
	Fault    string    `json:"fault,omitempty"` // what happens to it on its way
	Attempts int       `json:"attempts,omitempty"`
	Problem  string    `json:"problem,omitempty"` // of the last attempt
	Done     bool      `json:"done,omitempty"`
	GaveUp   bool      `json:"gave_up,omitempty"`
}

// answer is what a key has been answered with.
type answer struct {
	Key       string          `json:"key"`
	At        time.Time       `json:"at"`
	Asked     []byte          `json:"asked"` // hash of method, path and parameters
	RequestID string          `json:"request_id"`
	Status    int             `json:"status"`
	Body      json.RawMessage `json:"body"`
}

// armed is a fault that is still to happen.
type armed struct {
	Name string `json:"name"`
	Left int    `json:"left"`
}

func (r *customer) key() string { return r.ID }
func (r *session) key() string  { return r.ID }
func (r *intent) key() string   { return r.ID }
func (r *charge) key() string   { return r.ID }
func (r *refund) key() string   { return r.ID }
func (r *portal) key() string   { return r.Secret }
func (r *event) key() string    { return r.ID }
func (r *delivery) key() string { return r.ID }
func (r *answer) key() string   { return r.Key }
func (r *armed) key() string    { return r.Name }

// refusal is an error in the shape of the API.
type refusal struct {
	Status      int    `json:"-"`
	Type        string `json:"type"`
	Code        string `json:"code,omitempty"`
	DeclineCode string `json:"decline_code,omitempty"`
	Param       string `json:"param,omitempty"`
	Charge      string `json:"charge,omitempty"`
	Message     string `json:"message"`
	Retry       string `json:"-"` // says to the client whether asking again may help
}

func (r *refusal) Error() string { return r.Message }

const (
	invalidRequest = "invalid_request_error"
	cardError      = "card_error"
	apiError       = "api_error"
	keyError       = "idempotency_error"
)

func invalid(param, code, message string) *refusal {
	return &refusal{Status: http.StatusBadRequest, Type: invalidRequest, Code: code, Param: param, Message: message}
}

func missing(param, kind, id string) *refusal {
	return &refusal{Status: http.StatusNotFound, Type: invalidRequest, Code: "resource_missing", Param: param, Message: "No such " + kind + ": '" + id + "'"}
}
