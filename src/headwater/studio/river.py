"""The screen ``river``."""

from fastapi import APIRouter

router = APIRouter(tags=["river"])
