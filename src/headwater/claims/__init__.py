"""Every statement of the five source documents, run as a measurement: its text in two languages beside the check that answers it."""
