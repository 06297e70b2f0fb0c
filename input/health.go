package input

import (
	"context"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
)

// healthInterval is how often capture is asked how it is doing. It costs the server a
// short statement over views.
const healthInterval = 2 * time.Minute

// checkHealth publishes how capture is doing. Nothing depends on it: a login that may
// not see it is told so once, and any other failure is for the polls to notice.
func (s *scheduler) checkHealth(ctx context.Context, now time.Time) {
	if s.blind || now.Sub(s.healthAt) < healthInterval {
		return
	}
	s.healthAt = now
	health, err := s.source.Health(ctx)
	switch sqlserver.Classify(err) {
	case 0:
		s.metrics.healthy(health)
	case sqlserver.Transient, sqlserver.Canceled:
	default:
		s.blind = true
		s.log.Infof("The metrics of the capture job stay empty, everything else works: %v", err)
	}
}
