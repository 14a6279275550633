package dashboard

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net"
	"net/http"
	"sync"
	"time"

	"symbio/security/identity"
)

const (
	maxSessions = 32
	sessionIdle = 12 * time.Hour
	maxTokens   = 8
	tokenLife   = 2 * time.Minute
	// roleDashboard is the role of a certificate that needs no token. Only a token of the cluster that was
	// made for this role gives it: other nodes must not control this one.
	roleDashboard = "dashboard"
)

// secret is a token, or the session of a browser that has shown one. Only its
// hash is kept, so that neither can be read from the memory of a page or error.
type secret struct {
	hash [sha256.Size]byte
	by   string // of a session: who acts, for the record
	form string // of a session: what the forms of its pages have, and no other page knows
	ends time.Time
	// peer is, of a session, the node whose role gave it; nil = a token did.
	peer *identity.Peer
}

// secrets are the tokens or the sessions of a site. All are gone when the node
// ends. Its methods may be called concurrently.
type secrets struct {
	max  int           // the one that was used least recently ends if there are more
	life time.Duration // after the last use

	mu  sync.Mutex
	all []*secret // guarded by mu, the one used last at the end
}

// create returns a new secret of more than 256 random bits. by names where it is used; the
// beginning of its hash, which identifies a session and gives no access, is
// added.
func (s *secrets) create(by string) string {
	text := rand.Text() + rand.Text()
	hash := sha256.Sum256([]byte(text))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, &secret{hash, hex.EncodeToString(hash[:4]) + by, rand.Text(), time.Now().Add(s.life), nil})
	s.all = s.all[max(0, len(s.all)-s.max):]
	return text
}

// find returns the secret with that text, nil if there is none or it has ended.
// With once it ends now.
func (s *secrets) find(text string, once bool) (found *secret) {
	hash, now := sha256.Sum256([]byte(text)), time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	var kept []*secret
	for _, one := range s.all {
		switch {
		case now.After(one.ends):
		case subtle.ConstantTimeCompare(one.hash[:], hash[:]) == 1:
			found = one
		default:
			kept = append(kept, one)
		}
	}
	if s.all = kept; found != nil && !once {
		found.ends = now.Add(s.life)
		s.all = append(kept, found)
	}
	return found
}

// cookieName returns the name of the cookie. Browsers give the cookies of a
// host to all its ports, and in the LAN two nodes of a machine have one host.
func (s *site) cookieName() string {
	_, port, _ := net.SplitHostPort(s.listener.Addr().String())
	return "symbio-" + port
}

// begin begins a session and sets its cookie.
func (s *site) begin(w http.ResponseWriter, r *http.Request) *secret {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	text := s.sessions.create(" from " + host)
	http.SetCookie(w, &http.Cookie{Name: s.cookieName(), Value: text, Path: "/", HttpOnly: true, Secure: s.lan, SameSite: http.SameSiteStrictMode})
	return s.sessions.find(text, false)
}

// login exchanges a token for a session. The page after it opens the dashboard
// by itself: a browser that came from elsewhere, such as a link in a mail, sends
// the strict cookie only then.
func (s *site) login(w http.ResponseWriter, r *http.Request) {
	text := r.FormValue("token")
	switch {
	case text == "" || r.Method == http.MethodHead: // who only looks at an address does not use it up
		w.Header().Set("Refresh", "0; url=/")
		s.say(w, http.StatusOK, "Welcome", message{Text: "The dashboard opens by itself.", Back: "/"})
	case s.tokens.find(text, true) == nil:
		s.say(w, http.StatusForbidden, "This address was used already, or is too old", message{Text: "An address opens the dashboard once, within two minutes.", Login: true})
	default:
		s.begin(w, r)
		http.Redirect(w, r, "/login", http.StatusSeeOther)
	}
}

// allows reports whether a session goes on: a token gave it, or its node still has the role that did.
func (s *site) allows(one *secret) bool {
	r := s.cfg.Identity.Revocations()
	return one.peer == nil || !r.Has(one.peer.ID) && r.Assigned(*one.peer).Role == roleDashboard
}

// sessionOf returns the session of a request: the session of its cookie, or a new one
// for a browser whose certificate needs no token; else nil.
func (s *site) sessionOf(w http.ResponseWriter, r *http.Request) *secret {
	if c, err := r.Cookie(s.cookieName()); err == nil {
		if found := s.sessions.find(c.Value, false); found != nil && s.allows(found) {
			return found
		}
	}
	if r.TLS == nil || r.Method != http.MethodGet {
		return nil
	}
	peer, err := identity.PeerOf(*r.TLS)
	if err != nil || !s.allows(&secret{peer: &peer}) {
		return nil
	}
	session := s.begin(w, r)
	session.peer = &peer
	return session
}

// refuse answers a request that would change something and comes from elsewhere.
func (s *site) refuse(w http.ResponseWriter) {
	s.say(w, http.StatusForbidden, "This request does not come from the dashboard", message{Text: "Nothing was changed. Open the page again and repeat what you did.", Back: "/"})
}

// sessionKey is the key of the session in the context of a request.
type sessionKey struct{}

// sessionIn returns the session of a request that authenticated let through.
func sessionIn(ctx context.Context) *secret { return ctx.Value(sessionKey{}).(*secret) }

// authenticated refuses requests without a session, and those that change
// something and do not come from a page of the site.
func (s *site) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		session := s.sessionOf(w, r)
		switch {
		case session == nil:
			s.say(w, http.StatusUnauthorized, "This browser is not known here", message{Text: "A session ends after twelve hours without use, and with the node.", Login: true})
		case r.Method != http.MethodGet && r.Method != http.MethodHead && !s.isOwn(r):
			s.refuse(w)
		default:
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), sessionKey{}, session)))
		}
	})
}
