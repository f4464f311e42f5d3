#include "redis/survey.h"

int
survey_all(const struct nodes *nodes, const struct login *login,
    uint64_t timeout_ms, const struct mailbox *mailbox, struct ledger *ledger,
    bool (*stopping)(void), struct err *err)
{
	struct client client;
	int result = 0;

	for (uint32_t i = 0; i < nodes->count && result == 0; i++) {
		struct survey survey = {.client = &client,
		    .mailbox = mailbox,
		    .place = i,
		    .ledger = ledger,
		    .stopping = stopping};

		result = client_init(
		    &client, &nodes->all[i], login, timeout_ms, err);
		if (result == 0)
			result = survey_node(&survey, err);
		client_release(&client);
	}
	return result;
}
