package stripe

import (
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/internal/money"
)

// orNull is a text, or null where there is none.
func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func shown(currency string, amount int64) string {
	return money.Format(strings.ToUpper(currency), money.Minor(amount))
}

func (r *customer) show() object {
	return object{
		"id": r.ID, "object": "customer", "address": nil, "balance": 0, "created": r.Created, "currency": nil, "default_source": nil,
		"delinquent": false, "description": orNull(r.Description), "discount": nil, "email": orNull(r.Email),
		"invoice_prefix":   strings.ToUpper(r.ID[len(r.ID)-8:]),
		"invoice_settings": object{"custom_fields": nil, "default_payment_method": nil, "footer": nil, "rendering_options": nil},
		"livemode":         false, "metadata": r.Metadata, "name": orNull(r.Name), "next_invoice_sequence": 1, "phone": orNull(r.Phone),
		"preferred_locales": []string{}, "shipping": nil, "tax_exempt": "none", "test_clock": nil,
	}
}

func (s *Server) pageOf(r *session) string { return s.base + "/c/pay/" + r.ID }

func (s *Server) showSession(r *session) object {
	var page, details any
	if r.Status == open {
		page = s.pageOf(r)
	}
	if email := s.emailOf(r); email != "" || r.Status == complete {
		details = object{"address": nil, "email": orNull(email), "name": nil, "phone": nil, "tax_exempt": "none", "tax_ids": nil}
	}
	return object{
		"id": r.ID, "object": "checkout.session", "after_expiration": nil, "allow_promotion_codes": nil,
		"amount_subtotal": r.Amount, "amount_total": r.Amount,
		"automatic_tax":              object{"enabled": false, "liability": nil, "status": nil},
		"billing_address_collection": nil, "cancel_url": orNull(r.CancelURL), "client_reference_id": orNull(r.Reference), "client_secret": nil,
		"consent": nil, "consent_collection": nil, "created": r.Created, "currency": r.Currency, "currency_conversion": nil,
		"custom_fields":     []object{},
		"custom_text":       object{"after_submit": nil, "shipping_address": nil, "submit": nil, "terms_of_service_acceptance": nil},
		"customer":          orNull(r.Customer),
		"customer_creation": map[bool]any{true: "if_required", false: nil}[r.Customer == ""],
		"customer_details":  details, "customer_email": orNull(r.Email), "expires_at": r.ExpiresAt, "invoice": nil,
		"invoice_creation": object{
			"enabled":      false,
			"invoice_data": object{"account_tax_ids": nil, "custom_fields": nil, "description": nil, "footer": nil, "issuer": nil, "metadata": object{}, "rendering_options": nil},
		},
		"livemode": false, "locale": orNull(r.Locale), "metadata": r.Metadata, "mode": "payment", "payment_intent": orNull(r.Intent), "payment_link": nil,
		"payment_method_collection": "if_required", "payment_method_configuration_details": nil, "payment_method_options": object{},
		"payment_method_types": []string{"card"}, "payment_status": r.PaymentStatus, "phone_number_collection": object{"enabled": false},
		"recovered_from": nil, "setup_intent": nil, "shipping_address_collection": nil, "shipping_cost": nil, "shipping_details": nil,
		"shipping_options": []object{}, "status": r.Status, "submit_type": orNull(r.SubmitType), "subscription": nil, "success_url": r.SuccessURL,
		"total_details": object{"amount_discount": 0, "amount_shipping": 0, "amount_tax": 0},
		"ui_mode":       "hosted", "url": page,
	}
}

func (s *Server) emailOf(r *session) string {
	if who, ok := s.state.customers.get(r.Customer); ok && who.Email != "" {
		return who.Email
	}
	if i, ok := s.state.intents.get(r.Intent); ok {
		if c, ok := s.state.charges.get(i.Charge); ok && c.Payer != "" {
			return c.Payer
		}
	}
	return r.Email
}

func (s *Server) showIntent(r *intent) object {
	return object{
		"id": r.ID, "object": "payment_intent", "amount": r.Amount, "amount_capturable": 0, "amount_details": object{"tip": object{}},
		"amount_received": r.Received, "application": nil, "application_fee_amount": nil, "automatic_payment_methods": nil, "canceled_at": nil,
		"cancellation_reason": nil, "capture_method": "automatic", "client_secret": r.ID + "_secret_none", "confirmation_method": "automatic",
		"created": r.Created, "currency": r.Currency, "customer": orNull(r.Customer), "description": orNull(r.Text), "invoice": nil,
		"last_payment_error": r.Problem, "latest_charge": orNull(r.Charge), "livemode": false, "metadata": r.Metadata, "next_action": nil,
		"on_behalf_of": nil, "payment_method": orNull(s.methodOf(r.Charge)), "payment_method_configuration_details": nil,
		"payment_method_options": object{"card": object{"installments": nil, "mandate_options": nil, "network": nil, "request_three_d_secure": "automatic"}},
		"payment_method_types":   []string{"card"}, "processing": nil, "receipt_email": nil, "review": nil, "setup_future_usage": nil, "shipping": nil,
		"source": nil, "statement_descriptor": nil, "statement_descriptor_suffix": nil, "status": r.Status, "transfer_data": nil, "transfer_group": nil,
	}
}

// methodOf names the card of a charge; nobody can ask for it.
func (s *Server) methodOf(charge string) string {
	if _, ok := s.state.charges.get(charge); !ok {
		return ""
	}
	return "pm_" + strings.TrimPrefix(charge, "ch_")
}

func (r *charge) show() object {
	outcome := object{
		"network_status": "approved_by_network", "reason": nil, "risk_level": "normal", "risk_score": 1,
		"seller_message": "Payment complete.", "type": "authorized",
	}
	var code, message any
	if r.Problem != nil {
		code, message = r.Problem.Code, r.Problem.Message
		outcome = object{
			"network_status": "declined_by_network", "reason": orNull(r.Problem.DeclineCode), "risk_level": "normal", "risk_score": 1,
			"seller_message": "The bank did not say more.", "type": "issuer_declined",
		}
	}
	captured := map[bool]int64{true: r.Amount}[r.Status == succeeded]
	none := object{"city": nil, "country": nil, "line1": nil, "line2": nil, "postal_code": nil, "state": nil}
	return object{
		"id": r.ID, "object": "charge", "amount": r.Amount, "amount_captured": captured, "amount_refunded": r.Refunded, "application": nil,
		"application_fee": nil, "application_fee_amount": nil, "balance_transaction": nil,
		"billing_details":                 object{"address": none, "email": orNull(r.Payer), "name": nil, "phone": nil},
		"calculated_statement_descriptor": "GPUAAS DEVELOPMENT", "captured": r.Status == succeeded, "created": r.Created, "currency": r.Currency,
		"customer": orNull(r.Customer), "description": orNull(r.Text), "disputed": r.Disputed, "failure_balance_transaction": nil,
		"failure_code": code, "failure_message": message, "fraud_details": object{}, "invoice": nil, "livemode": false, "metadata": r.Metadata,
		"on_behalf_of": nil, "outcome": outcome, "paid": r.Status == succeeded, "payment_intent": r.Intent,
		"payment_method": "pm_" + strings.TrimPrefix(r.ID, "ch_"), "payment_method_details": r.card(), "radar_options": object{},
		"receipt_email": nil, "receipt_number": nil, "receipt_url": nil, "refunded": r.Status == succeeded && r.Refunded == r.Amount, "review": nil,
		"shipping": nil, "source": nil, "source_transfer": nil, "statement_descriptor": nil, "statement_descriptor_suffix": nil,
		"status": r.Status, "transfer_data": nil, "transfer_group": nil,
	}
}

func (r *charge) card() object {
	return object{"type": "card", "card": object{
		"amount_authorized": r.Amount, "brand": r.Brand,
		"checks":  object{"address_line1_check": nil, "address_postal_code_check": nil, "cvc_check": "pass"},
		"country": "US", "exp_month": r.ExpMonth, "exp_year": r.ExpYear, "extended_authorization": object{"status": "disabled"},
		"fingerprint": nil, "funding": "credit", "incremental_authorization": object{"status": "unavailable"}, "installments": nil, "last4": r.Last4,
		"mandate": nil, "multicapture": object{"status": "unavailable"}, "network": r.Brand, "network_token": object{"used": false},
		"overcapture": object{"maximum_amount_capturable": r.Amount, "status": "unavailable"}, "three_d_secure": nil, "wallet": nil,
	}}
}

func (r *refund) show() object {
	shown := object{
		"id": r.ID, "object": "refund", "amount": r.Amount, "balance_transaction": nil, "charge": r.Charge, "created": r.Created,
		"currency":            r.Currency,
		"destination_details": object{"card": object{"reference_status": "pending", "reference_type": "acquirer_reference_number", "type": "refund"}, "type": "card"},
		"metadata":            r.Metadata, "payment_intent": r.Intent, "reason": orNull(r.Reason), "receipt_number": nil,
		"source_transfer_reversal": nil, "status": r.Status, "transfer_reversal": nil,
	}
	if r.Status == failed { // the API shows these fields in this state alone
		shown["failure_reason"], shown["failure_balance_transaction"] = r.Problem, nil
	}
	return shown
}

// showDispute is of a charge whose holder asks the bank for the money back. It
// cannot be read by itself: nobody here answers one.
func (r *charge) showDispute(now time.Time) object {
	return object{
		"id": named("du_1"), "object": "dispute", "amount": r.Amount, "balance_transactions": []object{}, "charge": r.ID, "created": now.Unix(),
		"currency": r.Currency, "evidence": object{}, "evidence_details": object{"due_by": now.Add(7 * longest).Unix(), "has_evidence": false, "past_due": false, "submission_count": 0},
		"is_charge_refundable": true, "livemode": false, "metadata": object{}, "network_reason_code": nil, "payment_intent": r.Intent,
		"payment_method_details": object{"card": object{"brand": r.Brand, "network_reason_code": "10.4"}, "type": "card"},
		"reason":                 "fraudulent", "status": "needs_response",
	}
}

const portalFor = time.Hour

func (s *Server) showPortal(r *portal) object {
	return object{
		"id": r.ID, "object": "billing_portal.session", "configuration": "bpc_1development", "created": r.Created, "customer": r.Customer,
		"flow": nil, "livemode": false, "locale": orNull(r.Locale), "on_behalf_of": nil, "return_url": orNull(r.ReturnURL),
		"url": s.base + "/p/session/" + r.Secret,
	}
}

func (s *Server) showEvent(r *event) object {
	waiting := 0
	for _, d := range s.state.deliveries.rows {
		if d.Event == r.ID && !d.over() {
			waiting++
		}
	}
	data := object{"object": r.Object}
	if r.Before != nil {
		data["previous_attributes"] = r.Before
	}
	shown := object{
		"id": r.ID, "object": "event", "api_version": r.Version, "created": r.Created, "data": data, "livemode": r.Livemode,
		"pending_webhooks": waiting, "request": object{"id": orNull(r.RequestID), "idempotency_key": orNull(r.Key)}, "type": r.Type,
	}
	if r.Account != "" {
		shown["account"] = r.Account
	}
	return shown
}
