package objectstore

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
)

// resumable gives the emulator what it lacks: the emulator appends whatever comes
// and takes the question how far an upload came for its end. Here parts have
// offsets, as the service documents it. The emulator gets the content whole.
type resumable struct {
	next http.Handler

	mu       sync.Mutex
	sessions map[string]*session
}

type session struct {
	content []byte
	answer  *httptest.ResponseRecorder // of the emulator, once it is complete
}

// ServeHTTP implements http.Handler.
func (r *resumable) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	id := req.URL.Query().Get("upload_id")
	if req.Method != http.MethodPut || id == "" {
		r.next.ServeHTTP(w, req)
		return
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.sessions[id]
	if !ok {
		s = &session{}
		r.sessions[id] = s
	}
	place, total, _ := strings.Cut(strings.TrimPrefix(req.Header.Get("Content-Range"), "bytes "), "/")
	if place != "*" {
		from, err := strconv.Atoi(strings.Split(place, "-")[0])
		if err != nil || from > len(s.content) {
			http.Error(w, "the part begins after what is there", http.StatusBadRequest)
			return
		}
		if have := len(s.content) - from; have < len(body) {
			s.content = append(s.content, body[have:]...)
		}
	}
	if s.answer == nil && total == strconv.Itoa(len(s.content)) {
		whole := req.Clone(req.Context())
		whole.Body, whole.ContentLength = io.NopCloser(bytes.NewReader(s.content)), int64(len(s.content))
		whole.Header.Set("Content-Range", fmt.Sprintf("bytes 0-%d/%s", len(s.content)-1, total))
		s.answer = httptest.NewRecorder()
		r.next.ServeHTTP(s.answer, whole)
	}
	if s.answer == nil {
		if len(s.content) > 0 {
			w.Header().Set("Range", fmt.Sprintf("bytes=0-%d", len(s.content)-1))
		}
		w.WriteHeader(http.StatusPermanentRedirect)
		return
	}
	w.Header().Set("Content-Type", s.answer.Header().Get("Content-Type"))
	w.WriteHeader(s.answer.Code)
	_, _ = w.Write(s.answer.Body.Bytes()) // whoever asked may have gone
}
