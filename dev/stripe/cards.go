package stripe

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// How the card of a charge takes refunds.
const (
	refundsLater = "later"
	refundsFail  = "fail"
)

// outcome is what happens to a payment by a card.
type outcome struct {
	code, decline, message string // a refusal
	later                  string // what the payment comes to after a while
	refunds                string // what its refunds come to
	disputed               bool   // its holder asks the bank for the money
}

const declined = "Your card was declined."

// cards are the numbers of the API's documentation for tests, and two of our own
// for payments that take their time: no card there does so.
var cards = map[string]outcome{
	"4242424242424242": {},
	"4000056655665556": {},
	"5555555555554444": {},
	"378282246310005":  {},
	"4000000000000002": {code: "card_declined", decline: "generic_decline", message: declined},
	"4000000000009995": {code: "card_declined", decline: "insufficient_funds", message: "Your card has insufficient funds."},
	"4000000000009987": {code: "card_declined", decline: "lost_card", message: declined},
	"4000000000009979": {code: "card_declined", decline: "stolen_card", message: declined},
	"4000000000000069": {code: "expired_card", decline: "expired_card", message: "Your card has expired."},
	"4000000000000127": {code: "incorrect_cvc", decline: "incorrect_cvc", message: "Your card's security code is incorrect."},
	"4000000000000119": {code: "processing_error", decline: "processing_error", message: "An error occurred while processing your card. Try again in a little bit."},
	"4000000000007726": {refunds: refundsLater},
	"4000000000005126": {refunds: refundsFail},
	"4000000000000259": {disputed: true},
	CardLater:          {later: succeeded},
	CardLaterFails:     {later: failed},
}

// Cards of this provider alone: the page says that the payment is under way, and
// what becomes of it follows.
const (
	CardLater      = "4000000000060006"
	CardLaterFails = "4000000000060014"
)

// card is what a person has typed.
type card struct {
	number, expiry, cvc, email string
}

// refuseCard is how the page says that a card does not do.
func refuseCard(param, code, decline, message string) *refusal {
	return &refusal{Status: http.StatusPaymentRequired, Type: cardError, Code: code, DeclineCode: decline, Param: param, Message: message}
}

// check looks for what cannot be a card's at all; the bank is not asked then.
func (c *card) check(now time.Time) (month, year int, _ *refusal) {
	c.number = strings.NewReplacer(" ", "", "-", "").Replace(c.number)
	if len(c.number) < 12 || len(c.number) > 19 || !luhn(c.number) {
		return 0, 0, refuseCard("number", "incorrect_number", "", "Your card number is incorrect.")
	}
	text := strings.ReplaceAll(c.expiry, " ", "")
	m, y, _ := strings.Cut(text, "/")
	month, err := strconv.Atoi(m)
	if err != nil || month < 1 || month > 12 {
		return 0, 0, refuseCard("exp_month", "invalid_expiry_month", "", "Your card's expiration month is invalid.")
	}
	year, err = strconv.Atoi(y)
	if year < 100 {
		year += 2000
	}
	ends := time.Date(year, time.Month(month)+1, 1, 0, 0, 0, 0, time.UTC)
	if err != nil || !now.Before(ends) || year > now.Year()+50 {
		return 0, 0, refuseCard("exp_year", "invalid_expiry_year", "", "Your card's expiration year is invalid.")
	}
	digits := 3
	if brandOf(c.number) == "amex" {
		digits = 4
	}
	if _, err := strconv.ParseUint(c.cvc, 10, 16); err != nil || len(c.cvc) != digits {
		return 0, 0, refuseCard("cvc", "invalid_cvc", "", "Your card's security code is invalid.")
	}
	return month, year, nil
}

// outcome of a card that no test is made with is what a test account says to a
// card of a living person.
func (c *card) outcome() outcome {
	if o, ok := cards[c.number]; ok {
		return o
	}
	return outcome{code: "card_declined", decline: "test_mode_live_card", message: "Your card was declined. Your request was in test mode, but used a non test card."}
}

func brandOf(number string) string {
	switch number[0] {
	case '3':
		return "amex"
	case '5':
		return "mastercard"
	default:
		return "visa"
	}
}

// luhn checks the last digit, as ISO 7812 has it.
func luhn(number string) bool {
	sum := 0
	for n := range len(number) {
		d := int(number[len(number)-1-n]) - '0'
		if d < 0 || d > 9 {
			return false
		}
		if n%2 == 1 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return sum%10 == 0
}
